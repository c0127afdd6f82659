"""What each row must be, from the engine's own log: not through the code that is tested."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from fuzz_engine import FuzzEngine

from retrain.parity import LossRow
from retrain.types import Group, Trajectory


def witness_faults(
    groups: Sequence[Group], rows: Sequence[LossRow], engine: FuzzEngine, algorithm: str
) -> Iterator[str]:
    """Where the recorded rows are not what the engine saw and wrote, or what the rewards give.

    Args:
        groups: The groups as they were recorded.
        rows: Their rows.
        engine: The engine that wrote them.
        algorithm: Names the advantage.
    """
    by_index: dict[int, list[LossRow]] = {}
    for row in rows:
        by_index.setdefault(row.index, []).append(row)
    for group in groups:
        expected = _advantages(group, algorithm)
        for trajectory, advantage in zip(group.trajectories, expected, strict=True):
            found = by_index[trajectory.index if trajectory.index is not None else -1]
            yield from _stream_faults(trajectory, found, engine)
            for row in found:
                if not math.isclose(row.advantage, advantage, rel_tol=1e-6, abs_tol=1e-9):
                    yield f"sample {row.index}: advantage {row.advantage}, expected {advantage}"


def _stream_faults(
    trajectory: Trajectory, rows: Sequence[LossRow], engine: FuzzEngine
) -> Iterator[str]:
    """Compare an episode's rows with its last requests and answers."""
    turn = 0
    for row, segment in zip(rows, trajectory.segments, strict=False):
        prompt = len(segment.prompt_ids)
        stream: tuple[int, ...] = segment.prompt_ids
        mask, logprobs = [0] * len(row.mask), [0.0] * len(row.mask)
        for _ in segment.turns:
            asked, answer = engine.log[trajectory.seed.turn(turn)]
            stream = (*asked, *answer.output_ids)
            at, end = len(asked) - prompt, len(stream) - prompt
            mask[at:end] = [int(trajectory.valid)] * len(answer.output_ids)
            logprobs[at:end] = answer.logprobs
            turn += 1
        if segment.turns and (row.tokens, list(row.mask), list(row.logprobs)) != (
            stream,
            mask,
            logprobs,
        ):
            yield f"sample {row.index}, part {row.part}: not what the engine saw and wrote"
        if not segment.turns and row.trained:
            yield f"sample {row.index}, part {row.part}: trains on what nobody wrote"


def _advantages(group: Group, algorithm: str) -> list[float]:
    """The advantages of a group by the papers' formulas, over its valid episodes."""
    rewards = [t.reward if t.valid else None for t in group.trajectories]
    valid = [reward for reward in rewards if reward is not None]
    if len(valid) < 2 or len(set(valid)) == 1:
        return [0.0] * len(rewards)
    if algorithm in ("grpo", "gspo"):
        mean, scale = fmean(valid), stdev(valid) + 1e-6
        return [0.0 if reward is None else (reward - mean) / scale for reward in rewards]
    if algorithm == "dr_grpo":
        return [0.0 if reward is None else reward - fmean(valid) for reward in rewards]
    total, others = math.fsum(valid), len(valid) - 1
    return [0.0 if r is None else r - (total - r) / others for r in rewards]
