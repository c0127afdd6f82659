"""The comparison of backends for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from retrain.parity.report import BackendOutcome, ParityReport
from retrain.parity.rows import LossRow, digest
from retrain.parity.weights import WeightComparison
from retrain.report.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console

_HASH = 12
"""Characters of a hash that are shown."""


def print_parity(report: ParityReport, console: Console) -> None:
    """Print a table of the backends, the first difference of each, the weights and the verdict."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("", "rows", "tokens", "trained", "differences", "sha256"):
        right = name in ("rows", "tokens", "trained", "differences")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    table.add_row("tape", *_figures(report.expected), "", digest(report.expected)[:_HASH])
    for outcome in report.outcomes:
        if outcome.reading is not None:
            rows = outcome.reading.rows
            number = str(len(outcome.differences))
            table.add_row(outcome.backend, *_figures(rows), number, digest(rows)[:_HASH])
        else:
            table.add_row(outcome.backend, "", "", "", "", _missing(outcome))
    console.print(table)
    for outcome in report.outcomes:
        _print_outcome(outcome, console)
    for weights in report.weights:
        _print_weights(weights, console)
    _say(_verdict(report), console, bold=True)


def _figures(rows: tuple[LossRow, ...]) -> tuple[str, str, str]:
    tokens, trained = sum(len(row.tokens) for row in rows), sum(row.trained for row in rows)
    return f"{len(rows):,}", f"{tokens:,}", f"{trained:,}"


def _missing(outcome: BackendOutcome) -> str:
    """In a word why a backend is not compared."""
    if outcome.absent:
        return "absent"
    return "refused" if outcome.refused else "failed"


def _print_outcome(outcome: BackendOutcome, console: Console) -> None:
    if outcome.absent:
        _say(f"{outcome.backend}: not compared: {outcome.absent}", console)
    if outcome.refused:
        _say(f"{outcome.backend}: refused: {outcome.refused}", console)
    if outcome.failed:
        _say(f"{outcome.backend}: failed: {outcome.failed}", console)
    if outcome.reading is not None:
        _say(f"{outcome.backend}: read from {outcome.reading.source}", console)
        for note in outcome.reading.notes:
            _say(f"{outcome.backend}: {note}", console)
    if outcome.differences:
        kinds = Counter(difference.what for difference in outcome.differences)
        counted = ", ".join(f"{count} x {what}" for what, count in kinds.items())
        _say(f"{outcome.backend}: {counted}; the first one:", console)
        _say(str(outcome.differences[0]), console)


def _print_weights(weights: WeightComparison, console: Console) -> None:
    names = " and ".join(weights.backends)
    if not weights.differing:
        _say(f"loss weights of {names}: equal on {weights.tokens:,} tokens", console)
        return
    _say(
        f"loss weights of {names}: differ on {weights.differing:,} of {weights.tokens:,} tokens, "
        f"by a factor of at most {weights.ratio:.4g}",
        console,
    )
    for cause in weights.causes:
        _say(f"  {cause}", console)
    if not weights.explained:
        _say("  no rule of the frameworks explains it", console)


def _verdict(report: ParityReport) -> str:
    tokens = sum(len(row.tokens) for row in report.expected)
    begin = f"{len(report.expected):,} samples, {tokens:,} tokens: "
    if report.differences:
        return f"{begin}{len(report.differences):,} differences{_changed(report)}"
    if not report.readings:
        return f"{begin}nothing could be compared"
    *others, last = [reading.backend for reading in report.readings]
    names = f"{', '.join(['the tape', *others])} and {last}"
    missing = [f"; {o.backend} {_missing(o)}" for o in report.outcomes if o.reading is None]
    return f"{begin}identical on {names}{''.join(missing)}"


def _changed(report: ParityReport) -> str:
    """What to look at where the backends agree with one another, and not with the tape."""
    names = [reading.backend for reading in report.readings]
    if len(names) < 2 or len({digest(reading.rows) for reading in report.readings}) > 1:
        return ""
    return (
        f"; {', '.join(names[:-1])} and {names[-1]} agree with one another, so what differs is the "
        "model, the environment, the rewards or the settings: see the warnings"
    )


def _say(text: str, console: Console, *, bold: bool = False) -> None:
    style = "bold" if bold else None
    for line in text.split("\n"):
        console.print(printable(line), style=style, markup=False, highlight=False, soft_wrap=True)
