"""Where the time went."""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import fmean

from retrain.report.page.markup import Html, element, table
from retrain.report.progress import duration
from retrain.report.record import RunRecord

_WAIT = re.compile(r"rollout/([^/]+)_seconds")
_PHASES = {
    "rollout/seconds": ("rollouts", "engine-time"),
    "train/seconds": ("training", "reward-time"),
    "eval/rollout/seconds": ("evaluation", "environment-time"),
}
_WAITS = {
    "engine": "engine-time",
    "environment": "environment-time",
    "reward": "reward-time",
    "rendering": "rendering-time",
}


def timings(record: RunRecord) -> Html:
    """The run's time by phase, and an episode's by what it waited for."""
    phases = {label: (_sum(record, name), colour) for name, (label, colour) in _PHASES.items()}
    known = sum(seconds for seconds, _ in phases.values())
    other = max(0.0, record.seconds - known)
    if record.seconds and known:
        phases["everything else"] = (other, "line")
    return element(
        "div",
        _bar("the run", phases, record.seconds and max(known, record.seconds)),
        _bar("one episode, on average", *_waits(record)),
    )


def _waits(record: RunRecord) -> tuple[dict[str, tuple[float, str]], float]:
    values: dict[str, list[float]] = {}
    for row in record.rows:
        for name, value in row.values.items():
            if value is not None and (match := _WAIT.fullmatch(name)):
                values.setdefault(match[1], []).append(value)
    found = {
        kind: (fmean(seconds), _WAITS.get(kind, "rendering-time"))
        for kind, seconds in sorted(values.items(), key=lambda item: -fmean(item[1]))
    }
    return found, sum(seconds for seconds, _ in found.values())


def _bar(title: str, parts: Mapping[str, tuple[float, str]], whole: float) -> Html:
    if not whole:
        return Html("")
    shown = {label: part for label, part in parts.items() if part[0] > 0}
    pieces = (
        element(
            "span",
            class_="piece",
            style=f"width:{100 * seconds / whole:.2f}%;background:var(--{colour})",
            title=f"{label}: {_short(seconds)}",
        )
        for label, (seconds, colour) in shown.items()
    )
    rows = (
        (
            element("span", element("b", "", style=f"background:var(--{colour})"), label),
            _short(seconds),
            f"{seconds / whole:.1%}",
        )
        for label, (seconds, colour) in shown.items()
    )
    return element(
        "div",
        element("h3", title),
        element("div", *pieces, class_="bar"),
        table(("", "time", "share"), rows, class_="numbers key-table"),
        class_="timing",
    )


def _short(seconds: float) -> str:
    return duration(seconds) if seconds >= 10 else f"{seconds:.3g} s"


def _sum(record: RunRecord, name: str) -> float:
    return sum(row.values.get(name) or 0.0 for row in record.rows)
