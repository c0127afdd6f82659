"""What a run came to, in a table at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retrain.report.metrics import MetricRow
from retrain.report.progress import duration
from retrain.report.series import Series
from retrain.report.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Pair = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to.

    Attributes:
        title: The run's name.
        iterations: How many were trained.
        window: How many iterations the start and the end of reward and success average over.
        reward: Mean reward at the start and at the end.
        loss: Loss of the first and the last optimizer step, where nothing was rolled out.
        success: Success on training tasks at the start and at the end.
        held_out: Success on held-out tasks, first and last evaluation.
        held_out_reward: Reward on held-out tasks, first and last evaluation.
        tokens: Tokens sampled for training.
        episodes: Episodes, failed ones included.
        failed: Failed episodes.
        seconds: How long the run took.
        checkpoint: Where the last checkpoint is.
        curve: Where the curve is.
    """

    title: str
    iterations: int
    window: int
    reward: Pair
    loss: Pair
    success: Pair
    held_out: Pair
    held_out_reward: Pair
    tokens: int
    episodes: int
    failed: int
    seconds: float
    checkpoint: Path | None = None
    curve: Path | None = None


def summarise(
    rows: Sequence[MetricRow],
    *,
    title: str,
    seconds: float,
    checkpoint: Path | None = None,
    curve: Path | None = None,
) -> RunSummary:
    """Sum up a run.

    One iteration's reward is noisy, so the start and the end are means over the first and last
    tenth of the iterations, at most ten of them.

    Args:
        rows: The run's metrics.
        title: The run's name.
        seconds: How long it took.
        checkpoint: Where the last checkpoint is.
        curve: Where the curve is.
    """
    rewards = Series.of(rows, "reward/mean")
    iterations = max((row.iteration for row in rows), default=0)
    window = min(10, max(1, len(rewards.values) // 10))
    return RunSummary(
        title=title,
        iterations=iterations,
        window=window,
        reward=_ends(rewards, window),
        loss=_ends(Series.of(rows, "train/loss"), 1) if not rewards else (None, None),
        success=_ends(Series.of(rows, "success"), window),
        held_out=_ends(Series.of(rows, "eval/success"), 1),
        held_out_reward=_ends(Series.of(rows, "eval/reward/mean"), 1),
        tokens=_total(rows, "rollout/tokens"),
        episodes=_total(rows, "rollout/episodes"),
        failed=_total(rows, "rollout/failed"),
        seconds=seconds,
        checkpoint=checkpoint,
        curve=curve,
    )


def final_table(summary: RunSummary) -> Table:
    """The summary as a table for a terminal."""
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(summary):
        facts.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
    table = Table.grid()
    table.add_row(Text(one_line(summary.title), style="bold"))
    if _pairs(summary):
        table.add_row(_changes(summary))
    table.add_row(facts)
    return table


def _changes(summary: RunSummary) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    for heading in ("start", "end", "change"):
        table.add_column(heading, justify="right")
    for name, (start, end) in _pairs(summary):
        change = Text(_signed(start, end), style=_change_style(start, end))
        table.add_row(name, _number(start), _number(end), change)
    return table


def final_text(summary: RunSummary) -> str:
    """The summary as plain lines, for a pipe or a log."""
    lines = [one_line(summary.title)]
    for name, (start, end) in _pairs(summary):
        lines.append(f"  {name}: {_number(start)} -> {_number(end)} ({_signed(start, end)})")
    lines += [f"  {name}: {value}" for name, value in _facts(summary)]
    return "\n".join(lines)


def print_summary(summary: RunSummary, console: Console) -> None:
    """Print the table on a terminal, and the plain lines elsewhere."""
    if console.is_terminal:
        console.print(final_table(summary))
        return
    console.print(final_text(summary), markup=False, highlight=False, soft_wrap=True)


def _pairs(summary: RunSummary) -> list[tuple[str, Pair]]:
    over = f" (mean of {summary.window} iterations)" if summary.window > 1 else ""
    pairs = [
        (f"reward{over}", summary.reward),
        (f"success{over}", summary.success),
        ("loss", summary.loss),
        ("held-out success", summary.held_out),
        ("held-out reward", summary.held_out_reward),
    ]
    return [(name, pair) for name, pair in pairs if pair != (None, None)]


def _facts(summary: RunSummary) -> list[tuple[str, str]]:
    facts = [("iterations", f"{summary.iterations}")]
    if summary.episodes:
        share = summary.failed / summary.episodes
        failures = f"{summary.failed:,} of {summary.episodes:,} episodes ({share:.1%})"
        facts += [("tokens", f"{summary.tokens:,} sampled"), ("failures", failures)]
    facts.append(("time", duration(summary.seconds)))
    paths = [("checkpoint", summary.checkpoint), ("curve", summary.curve)]
    return facts + [(name, one_line(str(path))) for name, path in paths if path is not None]


def _ends(series: Series, window: int) -> Pair:
    return series.first(window), series.last(window)


def _total(rows: Sequence[MetricRow], name: str) -> int:
    return round(sum(Series.of(rows, name).values))


def _change_style(start: float | None, end: float | None) -> str:
    if start is None or end is None or start == end:
        return ""
    return "green" if end > start else "red"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _signed(start: float | None, end: float | None) -> str:
    return "-" if start is None or end is None else f"{end - start:+.3f}"
