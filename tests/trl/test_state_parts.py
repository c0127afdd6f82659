"""The two parts of a checkpoint's state, the draws and the groups, are of one moment."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from backends.trl.batching import BatchFiller
from retrain.engine.scripted import ScriptedEngine
from retrain.errors import BackendFailure, EnvironmentFailure, RetrainError
from retrain.launch import Launch
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.playing import Visit
from retrain.runtime import EventLoopThread
from retrain.types import Group, Task

TASKS = {f"task-{n}": Task(f"task-{n}", "q") for n in range(20)}
HELD = (2, 3)


class WatchedBuffer(DataBuffer):
    """Lets the held groups fail once its state is taken; off the loop, it waits until they have."""

    def __init__(self, loop: EventLoopThread) -> None:
        super().__init__([*TASKS.values()], seed=1)
        self.failing = asyncio.Event()
        self.refilled = threading.Event()
        self._loop = loop

    def draw(self, count: int) -> Any:
        drawn = super().draw(count)
        if self.drawn > 4:
            self.refilled.set()
        return drawn

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if threading.current_thread().name == "retrain-loop":
            self.failing.set()
        else:
            self._loop._loop.call_soon_threadsafe(self.failing.set)
            assert self.refilled.wait(30)
        return state


async def failing_later(visit: Visit, buffer: WatchedBuffer) -> Group:
    """Two groups run on outside the engine, fail, and give way to others."""
    if visit.request.index in HELD:
        await buffer.failing.wait()
        visit.refill()
    request = visit.request
    return Group(request.index, request.task, request.visit, ())


def filler(loop: EventLoopThread, buffer: WatchedBuffer, factor: float) -> BatchFiller:
    how = OverSampling(2, factor)
    gate = GatedEngine(ScriptedEngine(lambda *asked: [1]))
    manager = RolloutManager(lambda visit: failing_later(visit, buffer), buffer, gate, how)
    return BatchFiller(manager, how, 2, loop, Launch())


def test_a_group_that_fails_during_a_checkpoint_is_trained_once_after_a_resume() -> None:
    with EventLoopThread() as loop:
        buffer = WatchedBuffer(loop)
        batches = filler(loop, buffer, 2.0)
        trained = Counter(group.index for group in batches.fill().groups)
        state = batches.state(buffer)
        assert buffer.refilled.wait(30), "the held groups have failed by now"
        batches.close()
        again = WatchedBuffer(loop)
        again.failing.set()
        resumed = filler(loop, again, 1.0)
        resumed.load(state, again, TASKS)
        for _ in range(4):
            trained.update(group.index for group in resumed.fill().groups)
        resumed.close()
    assert set(trained.values()) == {1}
    failed = set(HELD)
    assert set(trained) == set(range(12)) - failed, "and none is lost"


class SecondOfTwo(Launch):
    """A rank that hears of the other's failure where all agree, and waits for ever elsewhere."""

    def gather(self, items: Any) -> list[Any]:
        if all(item is None or isinstance(item, str) for item in items):
            return ["snapshot: no space left", *items]
        raise AssertionError("the other rank has failed, and is not there to gather")


def test_a_rank_whose_state_cannot_be_taken_leaves_no_other_waiting() -> None:
    with EventLoopThread() as loop:
        buffer = WatchedBuffer(loop)
        batches = filler(loop, buffer, 1.0)
        batches._launch = SecondOfTwo(processes=2, rank=1)
        with pytest.raises(BackendFailure, match="rank 0 failed: snapshot: no space left"):
            batches.state(buffer)


class FirstOfTwo(Launch):
    """A rank that says what it gathers."""

    def gather(self, items: Any) -> list[Any]:
        SAID.extend(items)
        return [*items, None]


SAID: list[Any] = []


def test_a_rank_says_that_its_state_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(manager: RolloutManager) -> Any:
        raise EnvironmentFailure("snapshot: no space left")

    monkeypatch.setattr(RolloutManager, "saved_state", fails)
    with EventLoopThread() as loop:
        buffer = WatchedBuffer(loop)
        batches = filler(loop, buffer, 1.0)
        batches._launch = FirstOfTwo(processes=2, rank=0)
        with pytest.raises(RetrainError, match="no space left"):
            batches.state(buffer)
    assert SAID == ["snapshot: no space left"]
