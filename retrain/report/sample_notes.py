"""What the conversion wrote down about a sample's episode, read without needing all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from retrain.sample import Sample

_KEY = "retrain"


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """How many tokens of the response one turn takes.

    Attributes:
        sampled: Tokens that the policy sampled.
        replied: Tokens of the environment's reply, which follow them.
    """

    sampled: int
    replied: int


@dataclass(frozen=True, slots=True)
class SampleNotes:
    """Facts of the episode that a sample came from; None or empty where they are not known.

    Every segment of an episode carries its seed; only the first one carries the other facts of the
    episode. `turns` are the segment's.

    Attributes:
        task_id: The task's id.
        seed: The fields of the episode's seed: run, split, task_id, visit, sample_index.
        agent: Whose episode of a match it is; None where the environment has one agent.
        stop_reason: Why the episode ended.
        rewards: Raw reward by component.
        normalised: Reward by component after its normalisation.
        trained: The combined reward that is trained on; None where that is the raw one.
        error: The failure's boundary and reason.
        turns: The spans of the turns, in order.
        segment: Which segment of the episode it is, from 1.
        segments: How many there are.
    """

    task_id: str | None = None
    seed: Mapping[str, Any] = field(default_factory=dict)
    agent: str | None = None
    stop_reason: str | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    normalised: Mapping[str, float] = field(default_factory=dict)
    trained: float | None = None
    error: str | None = None
    turns: tuple[TurnSpan, ...] = ()
    segment: int = 1
    segments: int = 1

    @classmethod
    def of(cls, sample: Sample) -> SampleNotes:
        """Read the notes of a sample; one that no bridge made has none."""
        notes = sample.metadata.get(_KEY)
        if not isinstance(notes, Mapping):
            return cls()
        episode = _mapping(notes, "trajectory")
        seed = _mapping(episode, "seed") or _mapping(notes, "seed")
        error = _mapping(episode, "error")
        scoring = _mapping(episode, "scoring")
        return cls(
            task_id=_mapping(episode, "task").get("id", seed.get("task_id")),
            seed=seed,
            agent=episode.get("agent"),
            stop_reason=episode.get("stop_reason"),
            rewards=_mapping(episode, "rewards"),
            normalised=_mapping(scoring, "normalised"),
            trained=scoring.get("trained"),
            error=f"{error.get('boundary')}: {error.get('reason')}" if error else None,
            turns=tuple(TurnSpan(turn["output"], turn["env"]) for turn in notes.get("turns", ())),
            segment=notes.get("segment", 0) + 1,
            segments=notes.get("segments") or 1,
        )


def _mapping(owner: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = owner.get(key)
    return value if isinstance(value, Mapping) else {}
