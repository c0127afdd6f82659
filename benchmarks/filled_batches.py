"""Batches that are filled in one way or another, and what becomes of every task and token."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from timed_engine import TimedEngine

from retrain.rollout.ahead import CollectingAhead
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import Batch
from retrain.rollout.manager import RolloutManager
from retrain.types import Group

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Way:
    """A way to fill batches."""

    name: str
    factor: float
    partial: bool = True
    overlapping: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took, from the end of the warm-up on; tokens are those that the engine wrote.

    Attributes:
        seconds: Of the virtual clock, training included.
        collecting: Seconds in which batches were collected.
        trained: Tokens that were trained on.
        episodes: Episodes that were trained on.
        wasted: Share of all written tokens that nobody trains on, over the whole run.
        unfinished: Groups that were given up half played, over the whole run.
    """

    seconds: float
    collecting: float
    trained: int
    episodes: int
    wasted: float
    unfinished: int

    @property
    def speed(self) -> float:
        """Trained tokens per second."""
        return self.trained / self.seconds

    @property
    def throughput(self) -> float:
        """Trained tokens per second of collecting."""
        return self.trained / self.collecting


def written(groups: Sequence[Group]) -> int:
    """Tokens that the engine wrote for groups."""
    return sum(len(u.output_ids) for g in groups for t in g.trajectories for u in t.turns)


class Loop:
    """Collects and trains, one after the other or the next batch while one trains.

    Attributes:
        batches: The batches.
        collecting: Seconds that each took to collect.
        ended: When the training of each was over.
    """

    def __init__(self, manager: RolloutManager, engine: TimedEngine, training: float) -> None:
        self.batches: list[Batch] = []
        self.collecting: list[float] = []
        self.ended: list[float] = []
        self._manager, self._engine, self._training = Stopwatch(manager), engine, training

    async def run(self, batches: int, *, overlapping: bool) -> None:
        """Collect and train `batches` batches."""
        if overlapping:
            await self._run_ahead(CollectingAhead(self._manager), batches)
            return
        for number in range(batches):
            await self._train(await self._manager.collect())
            self._engine.weight_version = str(number + 1)

    async def _run_ahead(self, ahead: CollectingAhead, batches: int) -> None:
        for number in range(batches):
            await self._train(await ahead.collect(last=number + 1 == batches))
            async with ahead.weights_changing():
                self._engine.weight_version = str(number + 1)

    async def _train(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.collecting.append(self._manager.lap())
        await asyncio.sleep(self._training * written(batch.groups))
        self.ended.append(_now())


class Stopwatch:
    """A manager that counts the seconds in which it fills a batch."""

    def __init__(self, manager: RolloutManager) -> None:
        self._manager = manager
        self._seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def lap(self) -> float:
        """The seconds since the last call; a batch that is not full yet counts with the next."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    async def collect(self) -> Batch:
        """Collect a batch, with the weights changing after it."""
        return await self._counted(self._manager.collect())

    async def take_batch(self) -> Batch:
        """Take the batch that is filled, or fill one."""
        return await self._counted(self._manager.take_batch())

    async def fill(self) -> None:
        """Fill the next batch."""
        await self._counted(self._manager.fill())

    async def _counted(self, filling: Coroutine[Any, Any, T]) -> T:
        began = _now()
        try:
            return await filling
        finally:
            self._seconds += _now() - began


def _now() -> float:
    return asyncio.get_running_loop().time()


def account(
    batches: Sequence[Batch], manager: RolloutManager, buffer: DataBuffer, engine: TimedEngine
) -> int:
    """Tokens that nobody trains on.

    Every drawn visit is in one batch, still waits or was given up, and every token is trained on,
    kept or wasted.
    """
    groups = [group for batch in batches for group in batch.groups]
    trained = Counter((group.task.id, group.visit) for group in groups)
    waiting = Counter((request.task.id, request.visit) for request in manager.requests())
    assert set((trained + waiting).values()) == {1}, "a visit is trained on twice"
    given_up = sum(batch.tally.unfinished for batch in batches)
    assert len(trained) + len(waiting) + given_up == buffer.drawn, "a visit is lost"
    finished = manager.state_dict()["finished"]
    kept = sum(group.tokens for group in manager.partial_groups()) + sum(
        len(turn["output_ids"])
        for row in finished
        for episode in row["group"]["trajectories"]
        for segment in episode["segments"]
        for turn in segment["turns"]
    )
    wasted = engine.written - written(groups) - kept
    assert wasted >= 0, "tokens are trained on that nobody wrote"
    return wasted
