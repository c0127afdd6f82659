"""Continuation: an episode that was interrupted goes on from its tokens, with its actions repeated.

The loop knows nothing of it. It plays the episode from the beginning; an engine that answers with
the recorded turns stands before the real one, and compares every prompt that it is asked with the
recorded stream, token by token. The environment either repeats its steps (where it declares itself
`replayable`), or says again what it said and then takes its snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from bridges.environment import EnvironmentBridge, EnvironmentFactory
from bridges.episode import Episode
from bridges.limits import EpisodeLimits
from bridges.records import EpisodeRecord
from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
from retrain.environment.base import Environment, ToolSchema
from retrain.errors import EnvironmentFailure, boundary
from retrain.rollout.gate import joined, part_seed
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Observation,
    StepResult,
    StopReason,
    Task,
    Trajectory,
    Turn,
)

Written = Callable[[str], Generation | None]
"""Session -> what the engine has written of its running turn; None where nothing."""

Watch = Callable[[Episode], None]
"""Told of each episode when it begins."""

_CUT = (StopReason.MAX_RESPONSE_LEN, StopReason.CONTEXT_OVERFLOW)


class Departed(EnvironmentFailure):
    """A repeated episode is not what was recorded."""


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
        nor a replay, or departs from the record. It is then to be begun afresh.
    """
    environments = _environments(bridge.make_environment, record)
    if environments is None:
        return None
    recorded = RecordedEngine(engine, record)
    player = EnvironmentBridge(bridge.renderer, environments, bridge.limits)
    played = await player.run(
        task, engine=recorded, params=params, seed=seed, evaluation=evaluation, watch=watch
    )
    return None if recorded.departed else played


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
    timeout = episode.limits.step_timeout
    async with boundary(EnvironmentFailure, "snapshot", timeout=timeout):
        snapshot = await episode.environment.snapshot()
    return EpisodeRecord(segments, _cut_turn(parts), episode.said, snapshot)


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


class RecordedEngine:
    """Answers with recorded turns, then lets the real engine go on.

    Attributes:
        departed: Whether the episode was not what is recorded.
    """

    def __init__(self, engine: InferenceEngine, record: EpisodeRecord) -> None:
        """Stand before `engine` with a record."""
        self._engine = engine
        self._recorded = deque(record.requests())
        self._waiting = record.waiting
        self._partial = record.partial
        self.departed = False

    @property
    def repeating(self) -> bool:
        """Whether recorded turns are still to come."""
        return bool(self._recorded)

    def in_hand(self) -> list[Generation]:
        """The recorded beginning of the turn that is being written, where there is one."""
        return [] if self._partial is None else [_generation(self._partial)]

    @property
    def capabilities(self) -> EngineCapabilities:
        """What the engine behind can do."""
        return self._engine.capabilities

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Give the recorded turn to `input_ids`, or go on with the one that was cut, or write.

        Raises:
            Departed: `input_ids` are not what is recorded.
        """
        if self._recorded:
            stream, turn = self._recorded.popleft()
            self._compare(input_ids, stream)
            return _generation(turn)
        if self._waiting is not None:
            self._compare(input_ids, self._waiting)
        parts = self.in_hand()
        written = [token for part in parts for token in part.output_ids]
        room = params.max_tokens - len(written)
        reason = FinishReason.LENGTH
        if room > 0:
            rest = await self._engine.generate(
                [*input_ids, *written],
                replace(params, max_tokens=room),
                session_id=session_id,
                seed=part_seed(seed, len(written)),
                images=images,
            )
            parts.append(rest)
            reason = rest.finish_reason
        self._partial = self._waiting = None
        return replace(joined(parts), finish_reason=reason)

    async def abort(self, session_id: str) -> None:
        """End the session's running request."""
        await self._engine.abort(session_id)

    async def release(self, session_id: str) -> None:
        """Forget the session."""
        await self._engine.release(session_id)

    def _compare(self, asked: Sequence[int], recorded: Sequence[int]) -> None:
        if list(asked) != list(recorded):
            self.departed = True
            raise Departed(
                f"continuation: the repeated episode has another prompt than the recorded one "
                f"({len(asked)} tokens, {len(recorded)} recorded)"
            )


def _generation(turn: Turn) -> Generation:
    return Generation(
        turn.output_ids,
        turn.output_logprobs,
        turn.finish_reason,
        weight_version=turn.weight_version,
        meta={"cached_tokens": turn.cached_tokens, "weight_spans": turn.weight_spans},
    )


def _environments(make: EnvironmentFactory, record: EpisodeRecord) -> EnvironmentFactory | None:
    """What makes an environment that can go on; None where none can."""
    if make().replayable:
        return make
    if record.snapshot is None or len(record.segments) != 1:
        return None
    return lambda: RestoredEnvironment(make(), record)


class RestoredEnvironment(Environment):
    """Says again what it said, then goes on from a snapshot.

    Attributes:
        inner: The environment that is restored.
    """

    def __init__(self, inner: Environment, record: EpisodeRecord) -> None:
        """Take the environment that is to be restored, and the record."""
        self.inner = inner
        self._record = record
        self._step = 0

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The tools of the restored environment."""
        return self.inner.tools

    @property
    def world(self) -> object:
        """The world of the restored environment."""
        return self.inner.world

    async def reset(self, task: Task, seed: int) -> Observation:
        """Restore the snapshot, and give the first prompt again."""
        await self.inner.restore(task, self._record.snapshot)
        return Observation(self._record.said[0])

    async def step(self, action: Action) -> StepResult:
        """Give the recorded answer, as long as there is one."""
        turns = self._record.segments[0].turns
        if self._step < min(len(turns), len(self._record.said) - 1):
            turn, self._step = turns[self._step], self._step + 1
            return StepResult(
                Observation(self._record.said[self._step]), turn.reward, info=turn.info
            )
        return await self.inner.step(action)

    async def final_reward(self) -> float:
        """What the restored environment says."""
        return await self.inner.final_reward()

    async def close(self) -> None:
        """Close the restored environment."""
        await self.inner.close()
