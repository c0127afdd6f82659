import io
from pathlib import Path

from rich.console import Console

from retrain.report.metrics import MetricRow
from retrain.report.summary import RunSummary, final_text, print_summary, summarise


def rows() -> list[MetricRow]:
    trained = [
        MetricRow(
            i,
            0.0,
            {
                "reward/mean": i / 40,
                "success": i / 80,
                "rollout/tokens": 1000,
                "rollout/episodes": 64,
                "rollout/failed": 1 if i == 3 else 0,
            },
        )
        for i in range(1, 41)
    ]
    return [
        MetricRow(0, 0.0, {"eval/success": 0.25, "eval/reward/mean": 0.1}),
        *trained,
        MetricRow(40, 0.0, {"eval/success": 0.875, "eval/reward/mean": 0.6}),
    ]


def summary() -> RunSummary:
    path = Path("runs") / ("long" * 40) / "curve.png"
    return summarise(rows(), title="calc\x1b[2J", seconds=145, curve=path)


def printed(console: Console) -> str:
    print_summary(summary(), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_start_and_end_are_means_over_a_tenth_of_the_iterations() -> None:
    result = summary()
    assert result.window == 4
    assert result.reward == (2.5 / 40, 38.5 / 40)
    assert result.held_out == (0.25, 0.875)
    assert (result.tokens, result.episodes, result.failed) == (40_000, 2560, 1)


def test_a_pipe_gets_plain_lines_whole_however_long() -> None:
    text = printed(Console(file=io.StringIO(), width=40))
    assert text == final_text(summary()) + "\n"
    assert r"calc\x1b[2J" in text
    assert "held-out success: 0.250 -> 0.875 (+0.625)" in text
    assert "failures: 1 of 2,560 episodes (0.0%)" in text
    assert "time: 2 min 25 s" in text
    assert f"curve: {summary().curve}" in text
    assert "\x1b" not in text


def test_a_terminal_gets_a_table_with_the_same_facts() -> None:
    text = printed(Console(file=io.StringIO(), force_terminal=True, width=80, no_color=True))
    for fact in ("held-out success", "0.875", "+0.625", "40,000 sampled", "2 min 25 s"):
        assert fact in text


def test_a_run_without_rows_has_a_summary_too() -> None:
    empty = summarise([], title="nothing", seconds=1.0)
    assert empty.reward == (None, None)
    assert "failures" not in final_text(empty)
    print_summary(empty, Console(file=io.StringIO(), force_terminal=True))


def test_one_evaluation_is_its_own_start_and_end() -> None:
    result = summarise(rows()[:1], title="t", seconds=1.0)
    assert "held-out success: 0.250 -> 0.250 (+0.000)" in final_text(result)


def test_a_supervised_run_sums_up_its_loss_and_counts_no_episode() -> None:
    rows = [MetricRow(i, 0.0, {"train/loss": 3.0 / i}) for i in (1, 2, 3)]
    text = final_text(summarise(rows, title="sft", seconds=1.0))
    assert "loss: 3.000 -> 1.000 (-2.000)" in text
    assert "episodes" not in text
