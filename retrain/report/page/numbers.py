"""What a run came to, in numbers: tiles for one run, a table for several."""

from __future__ import annotations

from collections.abc import Sequence

from retrain.report.page.markup import Html, element, joined, table
from retrain.report.progress import duration
from retrain.report.record import RunRecord
from retrain.report.summary import RunSummary, summarise


def tiles(record: RunRecord) -> Html:
    """The numbers of one run."""
    summary = summary_of(record)
    found = [
        element(
            "div",
            element("dt", name),
            element("dd", value, element("small", f" {note}") if note else None),
        )
        for name, value, note in _facts(summary)
    ]
    return element("dl", *found, class_="tiles")


def compared(records: Sequence[RunRecord], names: Sequence[str]) -> Html:
    """The numbers of several runs, side by side."""
    facts = [
        {name: _cell(value, note) for name, value, note in _facts(summary_of(record))}
        for record in records
    ]
    rows = dict.fromkeys(name for run in facts for name in run)
    cells = ((name, *(run.get(name, "-") for run in facts)) for name in rows)
    return table(("", *names), cells, class_="numbers")


def _cell(value: str, note: str) -> Html:
    return joined([value, element("small", note, class_="quiet") if note else None])


def summary_of(record: RunRecord) -> RunSummary:
    """What a run came to."""
    return summarise(record.rows, title=record.title, seconds=record.seconds)


def _facts(summary: RunSummary) -> list[tuple[str, str, str]]:
    over = f"mean of {summary.window} iterations" if summary.window > 1 else ""
    same = summary.held_out_reward == summary.held_out
    pairs = (
        ("reward", summary.reward, over),
        ("success", (None, None) if summary.success == summary.reward else summary.success, over),
        ("loss", summary.loss, ""),
        ("held-out success", summary.held_out, "first and last evaluation"),
        ("held-out reward", (None, None) if same else summary.held_out_reward, ""),
    )
    found = [
        (name, f"{start:.3f} → {end:.3f}", note)
        for name, (start, end), note in pairs
        if start is not None and end is not None
    ]
    found.append(("iterations", f"{summary.iterations:,}", ""))
    if summary.episodes:
        share = f"{summary.failed:,} failed ({summary.failed / summary.episodes:.1%})"
        found += [("episodes", f"{summary.episodes:,}", share)]
        found += [("sampled tokens", f"{summary.tokens:,}", "")]
    return [*found, ("time", duration(summary.seconds), "")]
