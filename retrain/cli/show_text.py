"""A run, an iteration or an episode, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from retrain.errors import DataError
from retrain.report.progress import duration
from retrain.report.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from retrain.report.metrics import MetricRow
    from retrain.report.record import RunRecord
    from retrain.view.index import RunIndex
    from retrain.view.runs import RunPlace
    from retrain.view.summary import EpisodeSummary

MOST_ROWS = 16
"""Most iterations in the table of a run."""

_COLUMNS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("reward", ("reward/mean",), "{:+.3f}"),
    ("success", ("success",), "{:.2f}"),
    ("held-out", ("eval/success", "eval/reward/mean"), "{:.2f}"),
    ("loss", ("train/loss",), "{:+.4f}"),
    ("tokens", ("response/tokens",), "{:.0f}"),
    ("failed", ("rollout/failed",), "{:.0f}"),
    ("flat", ("rollout/zero_variance_groups",), "{:.0f}"),
    ("|Δlogprob|", ("train/logprob_abs_diff",), "{:.1e}"),
    ("tokens/s", ("rollout/tokens_per_second",), "{:,.0f}"),
)
"""Heading, the metrics of which the first known one stands there, and how it is written."""


def print_run(
    record: RunRecord, index: RunIndex, earlier: Sequence[RunPlace], *, full: bool
) -> None:
    """Print a run: what it is, its iterations, what it came to and which episodes to look at."""
    from retrain.report.newest import picks
    from retrain.report.summary import print_summary, summarise

    console = make_console()
    _line(console, f"{one_line(record.title)}  {_what(record)}", "bold")
    for place in earlier:
        _line(console, f"  before it: retrain show {one_line(str(place.folder))}", "dim")
    if record.rows:
        console.print()
        _table(console, record.rows, most=len(record.rows) if full else MOST_ROWS)
        console.print()
        print_summary(summarise(record.rows, title="in short", seconds=record.seconds), console)
    found = picks(index)
    if found:
        console.print()
        _episodes(console, [pick.episode for pick in found], [pick.role for pick in found])
        folder = one_line(str(record.folder))
        _line(console, f"one of them: retrain show {folder} --sample {found[0].episode.id}", "dim")
    elif not index.problems:
        _line(console, "no samples are recorded yet", "dim")


def print_iteration(index: RunIndex, iteration: int) -> None:
    """Print the episodes of an iteration, training and evaluation.

    Raises:
        DataError: There are none.
    """
    found = [episode for episode in index.episodes if episode.iteration == iteration]
    if not found:
        raise DataError(f"{index.folder}: holds no samples of iteration {iteration}")
    _episodes(make_console(), found, [episode.split for episode in found])


def make_console() -> Console:
    """A console on standard output, as wide as the text where that is no terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=10_000)


def _what(record: RunRecord) -> str:
    planned = record.planned
    done = f"{record.iterations} of {planned}" if planned else f"{record.iterations}"
    return (
        f"{one_line(record.backend)}, {record.state}, iteration {done}, {duration(record.seconds)}"
    )


def _table(console: Console, rows: Sequence[MetricRow], *, most: int) -> None:
    from rich import box
    from rich.table import Table

    values = _by_iteration(rows)
    columns = [column for column in _COLUMNS if any(_first(v, column[1]) for v in values.values())]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("iteration", *(heading for heading, _, _ in columns)):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = _spread(sorted(values), most)
    for iteration in shown:
        cells = (_cell(values[iteration], names, form) for _, names, form in columns)
        table.add_row(str(iteration), *cells)
    console.print(table)
    if len(shown) < len(values):
        _line(console, f"{len(shown)} of {len(values)} iterations; --full has all", "dim")


def _by_iteration(rows: Iterable[MetricRow]) -> dict[int, dict[str, float]]:
    """The values of an iteration's rows together; a later one counts."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        known = {name: value for name, value in row.values.items() if value is not None}
        found.setdefault(row.iteration, {}).update(known)
    return found


def _spread(iterations: Sequence[int], most: int) -> list[int]:
    """At most `most` of them, evenly spread, the first and the last one among them."""
    if len(iterations) <= most:
        return list(iterations)
    last = len(iterations) - 1
    return [iterations[round(place * last / (most - 1))] for place in range(most)]


def _first(values: dict[str, float], names: Iterable[str]) -> float | None:
    return next((values[name] for name in names if name in values), None)


def _cell(values: dict[str, float], names: Iterable[str], form: str) -> str:
    value = _first(values, names)
    return "" if value is None else form.format(value)


_EPISODE_COLUMNS: tuple[tuple[str, Callable[[EpisodeSummary], str]], ...] = (
    ("sample", lambda e: e.id),
    ("task", lambda e: one_line(e.task_id)[:30]),
    ("reward", lambda e: "?" if e.reward is None else f"{e.reward:+.3f}"),
    ("advantage", lambda e: f"{e.advantage:+.2f}"),
    ("status", lambda e: one_line(e.status)),
    ("turns", lambda e: str(e.turns)),
    ("trained", lambda e: f"{e.trained} of {e.tokens}"),
    ("", lambda e: " ".join(sorted(e.flags))),
    ("last words", lambda e: one_line(e.error or e.preview)),
)


def _episodes(console: Console, episodes: Sequence[EpisodeSummary], roles: Sequence[str]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    for heading, _ in _EPISODE_COLUMNS:
        last = heading == _EPISODE_COLUMNS[-1][0]
        table.add_column(
            heading,
            no_wrap=True,
            overflow="ellipsis" if last else "fold",
            ratio=1 if last else None,
        )
    for role, episode in zip(roles, episodes, strict=True):
        table.add_row(Text(role), *(Text(cell(episode)) for _, cell in _EPISODE_COLUMNS))
    console.print(table)


def _line(console: Console, text: str, style: str = "") -> None:
    from rich.text import Text

    console.print(Text(text, style), soft_wrap=True)
