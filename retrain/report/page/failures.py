"""What went wrong, by boundary, and what was left out of training."""

from __future__ import annotations

from collections.abc import Sequence

from retrain.report.metric_names import meaning_of
from retrain.report.newest import failure_reasons
from retrain.report.page.markup import Html, element, joined, short, table
from retrain.report.record import RunRecord, RunState
from retrain.report.run_folder import EVENTS
from retrain.view.index import RunIndex

_MOST_REASONS = 12
_MOST_EVENTS = 4
_TAIL = 16_384
_COUNTED = (
    "rollout/failed",
    "rollout/aborted",
    "rollout/truncated",
    "rollout/masked",
    "rollout/zero_variance_groups",
    "rollout/dropped",
    "rollout/replaced",
)
_GROUPS = ("rollout/failed/", "rollout/dropped/", "reward/failed/", "reward/retried/")


def failures(records: Sequence[RunRecord], names: Sequence[str]) -> Html:
    """Counts over all iterations, evaluations included; only what happened is listed."""
    totals = [_totals(record) for record in records]
    present = {name for total in totals for name in total}
    rows = [name for name in _COUNTED if name in present]
    rows += sorted(name for name in present if name.startswith(_GROUPS))
    if not rows:
        return element("p", "Nothing failed, and nothing was left out.", class_="good")
    cells = (
        (
            element("span", short(name, 120), class_="mono"),
            *(f"{total.get(name, 0):,.0f}" for total in totals),
            meaning_of(name) or "",
        )
        for name in rows
    )
    return table(("", *(name or "count" for name in names), "means"), cells, class_="numbers")


def reasons(index: RunIndex) -> Html:
    """Why the newest episodes failed."""
    found = failure_reasons(index)
    if not found:
        return Html("")
    rows = ((f"{count:,}", short(reason, 500)) for reason, count in found[:_MOST_REASONS])
    left = len(found) - _MOST_REASONS
    more = element("p", f"{left} more reasons", class_="quiet") if left > 0 else None
    return joined([table(("episodes", "reason"), rows, class_="reasons"), more])


def ending(record: RunRecord) -> Html | None:
    """The last events of a run that stopped early: why, where that was written down."""
    if record.state is not RunState.STOPPED:
        return None
    try:
        with (record.folder / EVENTS).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            lines = file.read().decode("utf-8", "replace").splitlines()[-_MOST_EVENTS:]
    except OSError:
        return None
    said = "\n".join(short(line.replace("\\n", "\n"), 4000) for line in lines)
    return joined([element("h3", "Its last events"), element("pre", said, class_="command")])


def _totals(record: RunRecord) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in record.rows:
        for written, value in row.values.items():
            name = written.removeprefix("eval/")
            if value and (name in _COUNTED or name.startswith(_GROUPS)):
                found[name] = found.get(name, 0.0) + value
    return found
