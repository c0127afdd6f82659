"""Episodes over a byte vocabulary: token i is byte i, so multi-byte characters span tokens."""

from __future__ import annotations

from typing import Any

from byte_text import encode

from retrain.errors import Boundary, EpisodeError
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Group,
    Segment,
    StopReason,
    Task,
    Timing,
    Trajectory,
    Turn,
)


def turn(said: str, reply: str = "", **fields: Any) -> Turn:
    ids = encode(said)
    return Turn(
        ids, (-0.5,) * len(ids), FinishReason.STOP, Action(said), env_ids=encode(reply), **fields
    )


def episode(
    *turns: Turn,
    reward: float | None = 1.0,
    status: Status = Status.COMPLETED,
    task_id: str = "sum-1",
    sample_index: int = 0,
    prompt: str = "3+4? ",
    **fields: Any,
) -> Trajectory:
    if status is Status.FAILED:
        fields.setdefault("error", EpisodeError(Boundary.ENVIRONMENT, "step: KeyError: 'x'"))
    seed = EpisodeSeed(7, "train", task_id, 2, sample_index)
    segments = (Segment(encode(prompt), turns),) if turns else ()
    fields.setdefault("stop_reason", StopReason.TERMINATED)
    fields.setdefault("timings", (Timing("engine", 0, 0.0, 2.0),))
    return Trajectory(
        Task(task_id, prompt, metadata={"level": 1}),
        seed,
        segments,
        status,
        reward=reward,
        index=sample_index,
        group_index=5,
        **fields,
    )


def group(*trajectories: Trajectory) -> Group:
    return Group(0, trajectories[0].task, 0, trajectories, (0.0,) * len(trajectories))
