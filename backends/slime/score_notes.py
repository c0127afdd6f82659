"""What scoring found, on slime's samples: values by component, and what is trained on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from bridges.data_format import KEY
from retrain.types import Scoring, Trajectory

SCORES = "retrain_scores"
"""Where the metadata of a sample that our `generate` did not play keeps them."""

_SCORED = {"rewards", "reward", "error", "scoring"}
_TRAJECTORY = TypeAdapter(Trajectory)
_SCORING = TypeAdapter(Scoring)


def write_scores(siblings: Sequence[Any], trajectory: Trajectory) -> None:
    """Put an episode's scores on its samples; one keeps them for all."""
    scores = _TRAJECTORY.dump_python(trajectory, mode="json", include=_SCORED)
    for sample in siblings:
        notes = (sample.metadata or {}).get(KEY)
        if isinstance(notes, dict) and "trajectory" in notes:
            notes["trajectory"] = {**notes["trajectory"], **scores}
            return
    siblings[0].metadata = {**(siblings[0].metadata or {}), SCORES: scores}


def write_trained(sample: Any, trained: float, normalised: Mapping[str, float]) -> None:
    """Put on a sample that has scores what it is trained on."""
    scores = _scores(sample)
    scoring = {**(scores.get("scoring") or _SCORING.dump_python(Scoring(), mode="json"))}
    scores["scoring"] = {**scoring, "trained": trained, "normalised": dict(normalised)}


def components_of(sample: Any) -> Mapping[str, float]:
    """Raw value by component; empty where nobody wrote it down."""
    return _scores(sample).get("rewards") or {}


def trained_of(sample: Any) -> float | None:
    """What a sample is trained on, where it was normalised; else None."""
    scoring = _scores(sample).get("scoring") or {}
    trained: float | None = scoring.get("trained")
    return trained


def agent_of(siblings: Iterable[Any]) -> str | None:
    """Whose episode it is; None where its environment has one agent, or nobody wrote it down."""
    agent: str | None = _scores(keeper(siblings)).get("agent")
    return agent


def keeper(siblings: Iterable[Any]) -> Any:
    """The one of an episode's samples that keeps its scores; None where none does."""
    return next((sample for sample in siblings if _scores(sample)), None)


def _scores(sample: Any) -> dict[str, Any]:
    metadata = getattr(sample, "metadata", None) or {}
    notes = metadata.get(KEY)
    found = notes.get("trajectory") if isinstance(notes, Mapping) else None
    scores = metadata.get(SCORES) if found is None else found
    return scores if isinstance(scores, dict) else {}
