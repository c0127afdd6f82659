"""What stands in for the engine and the environment while a recorded episode is repeated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

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
        self._record = record
        self.departed = False
        self.rewind()

    def rewind(self) -> None:
        """Begin at the record's first turn: the episode begins, or its worker was lost."""
        self._recorded = deque(self._record.requests())
        self._waiting = self._record.waiting
        self._partial = self._record.partial
        self._repeating = True

    def depart(self, why: str) -> Departed:
        """The failure that ends a repetition; the episode is to be begun afresh."""
        self.departed = True
        return Departed(f"continuation: {why}")

    @property
    def repeating(self) -> bool:
        """Whether the episode has not come to where the engine is to write yet."""
        return self._repeating

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
        self._repeating = False
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
            raise self.depart(
                "the repeated episode has another prompt than the recorded one "
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


class ContinuedEnvironment(Environment):
    """Goes on from a record: repeats its steps, or says again what it said, from its snapshot.

    Which of them, the environment behind says when it is reset: only then does one that lives in a
    worker have its place there.

    Attributes:
        inner: The environment that goes on.
    """

    def __init__(
        self, inner: Environment, record: EpisodeRecord, depart: Callable[[str], Departed]
    ) -> None:
        """Stand before an environment with a record.

        Args:
            inner: The environment.
            record: How far the episode was.
            depart: Makes the failure of an environment that cannot go on.
        """
        self.inner = inner
        self._record = record
        self._depart = depart
        self._replies: Iterator[StepResult] = iter(())

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The tools of the environment behind."""
        return self.inner.tools

    async def discover_tools(self) -> Sequence[ToolSchema]:
        """What the environment behind finds."""
        return await self.inner.discover_tools()

    @property
    def rewrites_history(self) -> bool:
        """What the environment behind says."""
        return self.inner.rewrites_history

    @property
    def shows_images(self) -> bool:
        """What the environment behind says."""
        return self.inner.shows_images

    @property
    def replayable(self) -> bool:
        """What the environment behind says."""
        return self.inner.replayable

    @property
    def world(self) -> Any:
        """The world of the environment behind."""
        return self.inner.world

    async def snapshot(self) -> Any:
        """The state of the environment behind, for another restart."""
        return await self.inner.snapshot()

    async def restore(self, task: Task, snapshot: Any) -> None:
        """Give the environment behind a state."""
        await self.inner.restore(task, snapshot)

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin to repeat: reset what is replayable, else restore the snapshot.

        Raises:
            Departed: The environment offers neither.
        """
        if self.inner.replayable:
            return await self.inner.reset(task, seed)
        if self._record.snapshot is None:
            raise self._depart("the environment is not replayable, and gave no snapshot")
        await self.inner.restore(task, self._record.snapshot)
        self._replies = self._record.replies(rewrites=self.inner.rewrites_history)
        return Observation(self._record.said[0])

    async def step(self, action: Action) -> StepResult:
        """Give the recorded answer, as long as there is one to give again."""
        recorded = next(self._replies, None)
        return await self.inner.step(action) if recorded is None else recorded

    async def final_reward(self) -> float:
        """What the environment behind says."""
        return await self.inner.final_reward()

    async def close(self) -> None:
        """Close the environment behind."""
        await self.inner.close()
