"""What stands in for the engine and the environment while a recorded episode is repeated."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from bridges.records import EpisodeRecord
from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
from retrain.environment.base import Environment, ToolSchema
from retrain.errors import EnvironmentFailure
from retrain.rollout.gate import joined, part_seed
from retrain.types import Action, FinishReason, Observation, StepResult, Task, Turn


class Departed(EnvironmentFailure):
    """A repeated episode is not what was recorded."""


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
