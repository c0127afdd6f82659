"""Batches that are filled in one way or another, and what becomes of every task and token."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from timed_engine import TimedEngine

from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import Batch
from retrain.rollout.manager import RolloutManager
from retrain.types import Group


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
        restarted: Groups that were begun again, over the whole run.
    """

    seconds: float
    collecting: float
    trained: int
    episodes: int
    wasted: float
    restarted: int

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
        self._manager, self._engine, self._training = manager, engine, training

    async def run(self, batches: int, *, overlapping: bool) -> None:
        """Collect and train `batches` batches."""
        fresh = await self._collect()
        for left in reversed(range(batches)):
            coming = asyncio.create_task(self._collect()) if left and overlapping else None
            await asyncio.sleep(self._training * written(fresh.groups))
            self.ended.append(asyncio.get_running_loop().time())
            if left:
                fresh = await (coming or self._collect())
            self._engine.weight_version = str(batches - left)

    async def _collect(self) -> Batch:
        loop = asyncio.get_running_loop()
        began = loop.time()
        batch = await self._manager.collect()
        self.collecting.append(loop.time() - began)
        self.batches.append(batch)
        return batch


def account(
    batches: Sequence[Batch], manager: RolloutManager, buffer: DataBuffer, engine: TimedEngine
) -> int:
    """Tokens that nobody trains on.

    Every drawn visit is in one batch or still waits, and every token is trained on, kept or wasted.
    """
    groups = [group for batch in batches for group in batch.groups]
    trained = Counter((group.task.id, group.visit) for group in groups)
    waiting = Counter((request.task.id, request.visit) for request in manager.requests())
    assert set((trained + waiting).values()) == {1}, "a visit is trained on twice"
    assert len(trained) + len(waiting) == buffer.drawn, "a visit is lost"
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
