import json
from pathlib import Path
from typing import Any

from retrain.report.metrics import MetricRow
from retrain.view.alarms import find_alarms
from retrain.view.charts import charts
from retrain.view.metrics_tail import MetricsTail


def rows(count: int = 12, **columns: Any) -> list[MetricRow]:
    names = {name.replace("__", "/"): values for name, values in columns.items()}
    return [
        MetricRow(n + 1, 0.0, {name: values(n) for name, values in names.items()})
        for n in range(count)
    ]


def names(found: list[MetricRow], faults: int = 0) -> list[str]:
    return [alarm.name for alarm in find_alarms(found, faults)]


def test_a_healthy_run_raises_no_alarm() -> None:
    healthy = rows(
        reward__mean=lambda n: 0.5,
        train__entropy=lambda n: 1.0 - 0.05 * n,
        train__logprob_abs_diff=lambda n: 0.01,
        rollout__groups=lambda n: 8,
        rollout__zero_variance_groups=lambda n: 3,
        rollout__episodes=lambda n: 64,
        rollout__failed=lambda n: 2,
    )
    assert names(healthy) == []


def test_each_alarm_needs_its_own_cause() -> None:
    reward = {"reward__mean": lambda n: 0.5}
    assert names(rows(train__entropy=lambda n: 0.5**n, **reward)) == ["entropy"]
    assert names(rows(train__logprob_abs_diff=lambda n: 0.2)) == ["drift"]
    assert names(rows(rollout__groups=lambda n: 8, rollout__zero_variance_groups=lambda n: 7)) == [
        "zero-variance"
    ]
    assert names(rows(rollout__episodes=lambda n: 64, rollout__failed=lambda n: 8)) == ["failures"]
    assert names([], faults=2) == ["mask"]


def test_imitation_may_sharpen() -> None:
    assert names(rows(train__entropy=lambda n: 0.5**n)) == []


def test_the_difference_on_present_weights_counts_where_older_ones_wrote_too() -> None:
    found = rows(
        train__logprob_abs_diff=lambda n: 0.5, train__logprob_abs_diff_current=lambda n: 0.01
    )
    assert names(found) == []


def test_an_alarm_looks_at_the_end_of_the_run() -> None:
    early = rows(train__logprob_abs_diff=lambda n: 0.5 if n < 3 else 0.01)
    assert names(early) == []


def test_components_are_drawn_apart_from_the_other_rewards() -> None:
    given = rows(
        reward__mean=lambda n: 1.0,
        reward__std=lambda n: 0.1,
        reward__trained__exact=lambda n: 0.0,
        reward__exact=lambda n: 1.0,
        reward__failed__exact__timeout=lambda n: 1,
    )
    drawn = {chart.title: list(chart.lines) for chart in charts(given)}
    assert drawn["Reward by component"] == ["reward/exact"]
    assert drawn["Failed reward components"] == ["reward/failed/exact/timeout"]


def test_a_tail_reads_whole_lines_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    assert not tail.read()
    first, second = (json.dumps({"iteration": n, "time": 1.0, "loss": n / 2}) for n in (1, 2))
    path.write_text(f"{first}\n{second[:9]}")
    assert tail.read()
    assert [row.iteration for row in tail.rows] == [1]
    assert not tail.read()
    path.write_text(f"{first}\n{second}\n")
    assert tail.read()
    assert [row.values["loss"] for row in tail.rows] == [0.5, 1.0]


def test_a_file_that_a_resume_cut_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"iteration": n, "time": 1.0}) + "\n" for n in range(5)]
    path.write_text("".join(lines))
    tail = MetricsTail(path)
    tail.read()
    other = tmp_path / "new"
    other.write_text("".join(lines[:2]))
    other.replace(path)
    assert tail.read()
    assert [row.iteration for row in tail.rows] == [0, 1]


def test_a_broken_row_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 1}\n{"iteration": "x"}\nnonsense\n\n{"iteration": 2}\n')
    tail = MetricsTail(path)
    tail.read()
    assert [row.iteration for row in tail.rows] == [1, 2]
    assert [", line 2:" in tail.problems[0], ", line 3:" in tail.problems[1]] == [True, True]


def test_agents_are_drawn_apart_by_what_is_measured() -> None:
    found = rows(
        agent__black__reward=lambda n: 1.0,
        agent__white__reward=lambda n: 0.0,
        agent__white__turns=lambda n: 3.0,
    )
    assert {chart.title: set(chart.lines) for chart in charts(found)} == {
        "Reward by agent": {"agent/black/reward", "agent/white/reward"}
    }
