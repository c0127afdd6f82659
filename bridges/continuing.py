"""Continuation: an episode that was interrupted goes on from its tokens, with its actions repeated.

The loop knows nothing of it. It plays the episode from the beginning; an engine that answers with
the recorded turns stands before the real one, and compares every prompt that it is asked with the
recorded stream, token by token. The environment either repeats its steps (where it declares itself
`replayable`), or says again what it said, once it has taken its snapshot.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pydantic_core import to_jsonable_python

from bridges.environment import EnvironmentBridge
from bridges.episode import Episode
from bridges.limits import EpisodeLimits
from bridges.recorded import ContinuedEnvironment, RecordedEngine
from bridges.records import EpisodeRecord
from retrain.engine.base import Generation, InferenceEngine, SamplingParams
from retrain.environment.base import Environment
from retrain.errors import EnvironmentFailure, RetrainError, boundary
from retrain.rollout.gate import joined
from retrain.rollout.playing import Written
from retrain.seeds import EpisodeSeed
from retrain.types import Action, FinishReason, StopReason, Task, Trajectory, Turn

Watch = Callable[[Episode], None]
"""Told of each episode when it begins."""

_CUT = (StopReason.MAX_RESPONSE_LEN, StopReason.CONTEXT_OVERFLOW)


async def continue_episode(
    bridge: EnvironmentBridge,
    trajectory: Trajectory,
    *,
    engine: InferenceEngine,
    params: SamplingParams,
    limits: EpisodeLimits | None = None,
) -> Trajectory:
    """Let an aborted or truncated episode go on from its tokens.

    Its tokens keep their logprobs and weight versions; the response's length counts over all turns,
    so the bounds are those of the whole episode.

    Args:
        bridge: Plays episodes in the same environment.
        trajectory: The episode, scored or not; its rewards are forgotten.
        engine: Writes what follows.
        params: How to sample.
        limits: The bounds of the whole episode; None are the bridge's. One that was truncated
            needs wider ones to go on.

    Returns:
        The whole episode, not yet scored.

    Raises:
        EnvironmentFailure: The environment does not declare itself replayable, or its replies are
            not those that are recorded.
    """
    record = record_of(trajectory)
    player = EnvironmentBridge(bridge.renderer, bridge.make_environment, limits or bridge.limits)
    played = await resume(
        player, record, trajectory.task, trajectory.seed, engine=engine, params=params
    )
    if played is None:
        raise EnvironmentFailure(
            f"task {trajectory.task.id!r}: cannot go on: its environment neither declares itself "
            "replayable nor repeats what is recorded"
        )
    return played


async def resume(
    bridge: EnvironmentBridge,
    record: EpisodeRecord,
    task: Task,
    seed: EpisodeSeed,
    *,
    engine: InferenceEngine,
    params: SamplingParams,
    evaluation: bool = False,
    watch: Watch | None = None,
) -> Trajectory | None:
    """Play an episode again up to where it was recorded, and go on from there.

    Args:
        bridge: Plays episodes.
        record: How far it was.
        task: What it is about.
        seed: Which episode it is.
        engine: Writes what follows.
        params: How to sample.
        evaluation: As in `EnvironmentBridge.run`.
        watch: As in `EnvironmentBridge.run`.

    Returns:
        The whole episode; None where it cannot go on: the environment offers neither a snapshot
        nor a replay, departs from the record, or fails on the way back. It is closed then, and the
        episode is to be begun afresh.
    """
    recorded = RecordedEngine(engine, record)

    def make() -> ContinuedEnvironment:
        recorded.rewind()
        return ContinuedEnvironment(bridge.make_environment(), record, recorded.depart)

    player = EnvironmentBridge(bridge.renderer, make, bridge.limits)
    played = await player.run(
        task, engine=recorded, params=params, seed=seed, evaluation=evaluation, watch=watch
    )
    failed = played.error is not None and recorded.repeating
    return None if recorded.departed or failed else played


def record_of(trajectory: Trajectory) -> EpisodeRecord:
    """The record of an episode that is over: a last turn that was cut goes on from its tokens."""
    segments, partial = trajectory.segments, None
    last = segments[-1].turns[-1] if segments and segments[-1].turns else None
    cut = trajectory.stop_reason in _CUT and last is not None
    aborted = last is not None and last.finish_reason is FinishReason.ABORT
    if last is not None and (aborted or (cut and last.finish_reason is FinishReason.LENGTH)):
        partial = last
        segments = (*segments[:-1], replace(segments[-1], turns=segments[-1].turns[:-1]))
    return EpisodeRecord(segments, partial=partial)


async def record_episode(episode: Episode, written: Written) -> EpisodeRecord | None:
    """Record how far an episode in play is.

    Args:
        episode: The episode.
        written: What the engine has written of a session's running turn.

    Returns:
        None where it has no first prompt yet, or is not past what was recorded of it before.
    """
    segments, engine = episode.stream.so_far(), episode.engine
    again = isinstance(engine, RecordedEngine) and engine.repeating
    if not segments or episode.environment is None or again:
        return None
    if not episode.asking:
        return EpisodeRecord(segments, said=episode.said)
    parts = engine.in_hand() if isinstance(engine, RecordedEngine) else []
    if (running := written(episode.session)) is not None:
        parts.append(running)
    snapshot = await _snapshot(episode.environment, episode.limits.step_timeout)
    return EpisodeRecord(segments, _cut_turn(parts), episode.said, snapshot)


async def _snapshot(environment: Environment, timeout: float | None) -> Any:
    """What an environment gives for a restart; None, and a warning, where it fails to.

    It may have died since its last step, which is no reason to end a run that only keeps it.
    """
    try:
        async with boundary(EnvironmentFailure, "snapshot", timeout=timeout):
            return to_jsonable_python(await environment.snapshot())
    except RetrainError as failure:
        _warn_once(f"{type(environment).__name__}: {failure}")
        return None


@lru_cache(maxsize=64)
def _warn_once(failure: str) -> None:
    """Warn of a failure the first time; python's own memory of warnings is lost at times."""
    warnings.warn(
        f"rollout state: {failure}; where the environment is not replayable, its episode begins "
        "afresh if the run is resumed from there, or where it was last recorded",
        RuntimeWarning,
        stacklevel=2,
    )


def _cut_turn(parts: Sequence[Generation]) -> Turn | None:
    """The turn that is being written."""
    generation = joined(parts) if parts else None
    if generation is None or not generation.output_ids:
        return None
    return Turn(
        generation.output_ids,
        generation.logprobs,
        FinishReason.ABORT,
        Action(),
        generation.weight_version,
        weight_spans=generation.meta.get("weight_spans", ()),
    )
