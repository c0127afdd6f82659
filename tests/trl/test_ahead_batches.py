"""What a filler that collects ahead begins, and which changes of the weights it counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from backends.trl.ahead import AheadBatches
from backends.trl.batching import BatchFiller
from retrain.engine.scripted import ScriptedEngine
from retrain.launch import Launch
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.playing import Visit
from retrain.runtime import EventLoopThread
from retrain.types import Group, Task

TASKS = {f"task-{n}": Task(f"task-{n}", "q") for n in range(20)}


async def play(visit: Visit) -> Group:
    request = visit.request
    return Group(request.index, request.task, request.visit, ())


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    with EventLoopThread() as thread:
        yield thread


def filler(loop: EventLoopThread) -> tuple[AheadBatches, RolloutManager, DataBuffer]:
    """Three iterations of two optimizer steps, with two groups each."""
    buffer, how = DataBuffer([*TASKS.values()], seed=1), OverSampling(2, max_staleness=1)
    gate = GatedEngine(ScriptedEngine(lambda *asked: [1]))
    manager = RolloutManager(play, buffer, gate, how)
    return AheadBatches(manager, how, 2, loop, Launch(), steps=2, end=6), manager, buffer


def fill(batches: AheadBatches, step: int) -> list[int]:
    with batches.weights_changing(step):
        pass
    return [group.index for group in batches.fill().groups]


def test_nothing_is_begun_after_the_last_batch(loop: EventLoopThread) -> None:
    batches, manager, buffer = filler(loop)
    assert [fill(batches, step) for step in (0, 2, 4)] == [[0, 1], [2, 3], [4, 5]]
    assert (buffer.drawn, manager.requests()) == (6, [])
    batches.close()


def saved(loop: EventLoopThread) -> tuple[dict[str, Any], int]:
    """The state after the first iteration, and how often the weights had changed."""
    batches, manager, buffer = filler(loop)
    fill(batches, 0)
    with batches.weights_changing(2):
        pass
    state = batches.state(buffer)
    batches.close()
    return {"step": 2, **state}, manager.updates


@pytest.mark.parametrize("ahead", [True, False])
def test_weights_that_a_resumed_run_sends_again_are_no_further_change(
    loop: EventLoopThread, ahead: bool
) -> None:
    state, updates = saved(loop)
    if not ahead:
        del state["weights_step"]  # a run that collects in turn counts before it saves
    batches, manager, buffer = filler(loop)
    batches.load(state, buffer, TASKS)
    for step, changes in ((2, 0), (4, 1)):
        with batches.weights_changing(step):
            pass
        assert manager.updates == updates + changes
    batches.close()


@pytest.mark.parametrize("sent", [True, False])
def test_a_run_that_goes_on_in_turn_counts_the_update_that_was_not_sent_yet(
    loop: EventLoopThread, sent: bool
) -> None:
    state, updates = saved(loop)
    if not sent:
        state["weights_step"] = 0
    _, manager, buffer = filler(loop)
    in_turn = BatchFiller(manager, manager.how, 2, loop, Launch())
    in_turn.load(state, buffer, TASKS)
    assert manager.updates == updates + (not sent)
    in_turn.close()
