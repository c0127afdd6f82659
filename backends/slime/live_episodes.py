"""Episodes that outlive a call of `generate`: aborted by slime, and gone on with later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from backends.slime.engine import Answer, SlimeSampling
from backends.slime.interruption import InterruptibleEngine
from backends.slime.samples import answers_of_turn
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, StopReason, Task, Trajectory

LIVE = "retrain_live"
"""Where an aborted sample's metadata names its live episode."""

BEGUN_AGAIN = "retrain_begun_again"
"""Set in the metadata of a sample whose episode was aborted, and is gone: it begins afresh."""

MOST_EPISODES = 4096
MOST_TOKENS = 32 * 1024 * 1024
"""What suspended episodes may hold in one process; a token takes about 100 bytes (its id and its
logprob, as objects, in the record and in the episode itself)."""


class LiveEpisode:
    """An episode in play, in a task of its own.

    Attributes:
        answers: What the servers said about its turns.
    """

    def __init__(
        self,
        play: Coroutine[Any, Any, Trajectory],
        engine: InterruptibleEngine,
        params: SlimeSampling,
    ) -> None:
        """Begin it.

        Args:
            play: Plays it through `engine`.
            engine: Its engine.
            params: How it samples.
        """
        self.answers = params.answers
        self._engine = engine
        self._task = asyncio.create_task(play)

    @property
    def stale(self) -> tuple[int, ...]:
        """[segments] how many tokens of the response were written before it went on."""
        return self._engine.record.stale

    @property
    def tokens(self) -> int:
        """How many tokens it holds."""
        return self._engine.record.tokens

    @property
    def alive(self) -> bool:
        """Whether it is suspended and can go on in the running event loop."""
        return not self._task.done() and self._task.get_loop() is asyncio.get_running_loop()

    async def rest(self) -> Trajectory | None:
        """Wait until it is over or suspended.

        Returns:
            The trajectory; None where it is suspended.

        Raises:
            RetrainError: A failure whose policy is to raise.
        """
        suspended = asyncio.ensure_future(self._engine.suspended.wait())
        try:
            await asyncio.wait({self._task, suspended}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.end()
            raise
        finally:
            suspended.cancel()
        return self._task.result() if self._task.done() else None

    def so_far(
        self, task: Task, seed: EpisodeSeed, parse: Callable[[Sequence[int]], Action]
    ) -> tuple[Trajectory, list[tuple[Answer, ...]]]:
        """A suspended episode as one that was aborted, not scored; and what the servers said of it.

        Args:
            task: What it is about.
            seed: Which episode it is.
            parse: Reads a turn.
        """
        record = self._engine.record
        trajectory = Trajectory(
            task, seed, record.segments(parse), Status.ABORTED, StopReason.ABORTED
        )
        rows = zip(record.seeds, trajectory.turns, strict=True)
        answers = [answers_of_turn(s, len(turn.output_ids), self.answers) for s, turn in rows]
        return trajectory, answers

    def go_on(self) -> None:
        """Let it go on where it is suspended."""
        self._engine.record.mark_stale()
        self._engine.go_on()

    async def end(self) -> None:
        """End it where it stands; its environment is closed."""
        if self.alive:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Kept:
    episode: LiveEpisode
    tokens: int


class LiveEpisodes:
    """The suspended episodes of one process, within bounds."""

    def __init__(
        self, *, most_episodes: int = MOST_EPISODES, most_tokens: int = MOST_TOKENS
    ) -> None:
        """Begin with none.

        Args:
            most_episodes: Most episodes to keep.
            most_tokens: Most tokens of all their streams together.
        """
        self._most_episodes = most_episodes
        self._most_tokens = most_tokens
        self._kept: dict[str, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def keep(self, sample: Any, episode: LiveEpisode) -> None:
        """Keep a suspended episode for its sample; those kept longest end where it is one too many.

        Args:
            sample: Slime's sample; its metadata names the episode from now on.
            episode: The episode.
        """
        name = uuid4().hex
        sample.metadata[LIVE] = name
        self._kept[name] = _Kept(episode, episode.tokens)
        while len(self._kept) > 1 and self._too_many():
            oldest = self._kept.pop(next(iter(self._kept)))
            await oldest.episode.end()

    def take(self, sample: Any) -> LiveEpisode | None:
        """Give the live episode of a sample; None where it has none.

        A sample whose episode is gone is marked as begun again.
        """
        if sample.metadata is None:
            sample.metadata = {}
        name = sample.metadata.pop(LIVE, None)
        if name is None:
            return None
        kept = self._kept.pop(name, None)
        if kept is None or not kept.episode.alive:
            sample.metadata[BEGUN_AGAIN] = True
            return None
        return kept.episode

    async def end_all(self) -> None:
        """End all that are kept."""
        kept, self._kept = [*self._kept.values()], {}
        await asyncio.gather(*(item.episode.end() for item in kept))

    def _too_many(self) -> bool:
        tokens = sum(item.tokens for item in self._kept.values())
        return len(self._kept) > self._most_episodes or tokens > self._most_tokens
