"""Scored responses for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retrain.cli.reward_document import disagreements, failures, mean
from retrain.report.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from retrain.reward.hub.cases import Case
    from retrain.reward.hub.marking import Mark, Marks

ROWS = 20
"""Most responses that a table lists, and most reasons of failure."""

_WIDTH = 48


def print_marks(
    name: str, chosen: str, cases: Sequence[Case], marks: Mapping[str, Marks], console: Console
) -> None:
    """Print the scores of the chosen mode, what the modes disagree on, and the timing."""
    _line(f"{name}: {len(cases)} responses", console, "bold")
    for mode, found in marks.items():
        _line(f"  {mode:<8} {_summary(found)}", console)
        for reason, count in failures(found)[:ROWS]:
            _line(f"           {count} x {one_line(reason)}", console)
        for counted, number in sorted(found.counted.items()):
            _line(f"           {counted}: {number:,.6g}", console)
    console.print()
    _print_table(f"mode {chosen}", _scores(cases, marks[chosen]), len(cases), console)
    if len(marks) > 1:
        apart = disagreements(marks)
        console.print()
        _print_table(
            f"the modes disagree on {len(apart)} of {len(cases)}",
            _apart(cases, marks, apart),
            len(apart),
            console,
        )


def _summary(found: Marks) -> str:
    average = mean(found)
    shown = "none" if average is None else f"{average:+.4f}"
    failed = len(found.marks) - len(found.rewards)
    rate = len(found.marks) / found.seconds if found.seconds > 0 else 0.0
    return f"mean {shown}, {failed} failed, {found.seconds:.2f} s ({rate:,.0f} per second)"


def _scores(cases: Sequence[Case], found: Marks) -> Iterator[str]:
    yield f"{'row':>6}  {'reward':>8}  {'label':<20}  end of the response"
    for at, (case, mark) in enumerate(zip(cases, found.marks, strict=True)):
        yield f"{at:>6}  {_reward(mark)}  {_label(case)}  {_end(case)}"


def _apart(
    cases: Sequence[Case], marks: Mapping[str, Marks], apart: Sequence[int]
) -> Iterator[str]:
    heads = "  ".join(f"{mode:>8}" for mode in marks)
    yield f"{'row':>6}  {heads}  {'label':<20}  end of the response"
    for at in apart:
        rewards = "  ".join(_reward(found.marks[at]) for found in marks.values())
        yield f"{at:>6}  {rewards}  {_label(cases[at])}  {_end(cases[at])}"


def _reward(mark: Mark) -> str:
    return f"{'failed' if mark.reward is None else format(mark.reward, '+.3f'):>8}"


def _label(case: Case) -> str:
    text = one_line(str(case.label)[:100])
    return f"{text if len(text) <= 20 else text[:17] + '...':<20}"


def _end(case: Case) -> str:
    text = one_line((case.response or "")[-_WIDTH:])
    return text if len(case.response or "") <= _WIDTH else f"...{text}"


def _print_table(title: str, lines: Iterator[str], total: int, console: Console) -> None:
    _line(title, console, "bold")
    for shown, line in zip(range(ROWS + 1), lines, strict=False):
        if shown or total:
            _line(line, console)
    if total > ROWS:
        _line(f"... and {total - ROWS} more; --json has all", console, "dim")


def _line(text: str, console: Console, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True, emoji=False)
