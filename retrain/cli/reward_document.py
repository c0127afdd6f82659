"""Scored responses as a JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrain.reward.hub.cases import Case
    from retrain.reward.hub.marking import Mark, Marks


def reward_document(
    name: str, chosen: str, cases: Sequence[Case], marks: Mapping[str, Marks]
) -> dict[str, Any]:
    """What `retrain reward --json` prints.

    Args:
        name: The rule.
        chosen: The mode that was asked for.
        cases: The cases, in the file's order.
        marks: What they got, by mode.
    """
    return {
        "reward": name,
        "mode": chosen,
        "responses": len(cases),
        "modes": {mode: _summary(found) for mode, found in marks.items()},
        "disagreements": [
            {"row": at, **{mode: _given(found.marks[at]) for mode, found in marks.items()}}
            for at in disagreements(marks)
        ],
        "rows": [_given(mark) for mark in marks[chosen].marks],
    }


def disagreements(marks: Mapping[str, Marks]) -> list[int]:
    """The rows, from 0, on which the modes do not agree: another reward, or only one failed."""
    columns = [[mark.reward for mark in found.marks] for found in marks.values()]
    return [at for at, row in enumerate(zip(*columns, strict=True)) if len(set(row)) > 1]


def failures(found: Marks) -> list[tuple[str, int]]:
    """Why responses could not be scored, the most frequent reason first."""
    return Counter(mark.failure for mark in found.marks if mark.failure).most_common()


def mean(found: Marks) -> float | None:
    """The mean reward of the responses that have one."""
    return sum(found.rewards) / len(found.rewards) if found.rewards else None


def _summary(found: Marks) -> dict[str, Any]:
    return {
        "mean": mean(found),
        "scored": len(found.rewards),
        "failed": len(found.marks) - len(found.rewards),
        "failures": dict(failures(found)),
        "seconds": found.seconds,
        **({"counted": dict(found.counted)} if found.counted else {}),
    }


def _given(mark: Mark) -> dict[str, Any]:
    if mark.failure:
        return {"reward": None, "failure": mark.failure}
    values = {"score": mark.score} if isinstance(mark.score, Mapping) else {}
    return {"reward": mark.reward, **values}
