"""An episode keeps the best way back that it had, whatever its environment does afterwards."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, ClassVar

import pytest
from counting_worlds import Replayable, Snapshots
from test_continuing import LIMITS, TASKS, engine_of, manager_of, recorded_tokens, visits
from virtual_clock import run_virtual

from bridges import EnvironmentBridge
from bridges.interrupted import Interrupted
from retrain.engine.base import SamplingParams
from retrain.rendering import DeltaRenderer
from retrain.rollout.manager import RolloutManager
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, Observation, StepResult, Task


class Tiring(Snapshots):
    """Gives no snapshot any more after a while."""

    tired = False

    async def snapshot(self) -> Any:
        if Tiring.tired:
            raise OSError("the disk is full")
        return await super().snapshot()


class Slow(Snapshots):
    """Takes a step for longer than the engine a turn."""

    async def step(self, action: Action) -> StepResult:
        await asyncio.sleep(0.4)
        return await super().step(action)


class SlowReplayable(Replayable):
    """Takes its time for each step, also where it is repeated."""

    async def step(self, action: Action) -> StepResult:
        await asyncio.sleep(0.05)
        return await super().step(action)


class Forgetful(Snapshots):
    """Does not take its own snapshot."""

    async def restore(self, task: Task, snapshot: Any) -> None:
        raise OSError("the snapshot is of another world")


class Failing(Replayable):
    """Cannot repeat its first step for some tasks, but does it again from the beginning."""

    done: ClassVar[Counter[str]] = Counter()

    async def reset(self, task: Task, seed: int) -> Observation:
        self.task = task.id
        return await super().reset(task, seed)

    async def step(self, action: Action) -> StepResult:
        if not self.count and Failing.done[self.task]:
            Failing.done[self.task] -= 1
            raise OSError("it is done already")
        return await super().step(action)


def ways_back(state: Any) -> dict[tuple[int, str], Any]:
    """(group, member) -> the snapshot of an episode that is half played."""
    return {
        (row["index"], member): record["snapshot"]
        for row in state["pending"]
        for member, record in row["records"].items()
        if "trajectory" not in record
    }


def repeated(state: Any) -> list[str]:
    """The tasks all of whose episodes are half played and have a step to repeat."""
    found = []
    for row in state["pending"]:
        records = [r for r in row["records"].values() if "trajectory" not in r]
        if records and all(r["segments"][0]["turns"] for r in records):
            found += [row["task"]] * len(records)
    return found


@pytest.mark.filterwarnings("ignore:rollout state")
@pytest.mark.parametrize("world", [Tiring, Slow])
def test_an_episode_that_cannot_be_saved_now_goes_back_to_where_it_was_saved(
    renderer: DeltaRenderer, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before_and_after(manager: RolloutManager) -> list[tuple[Any, Any]]:
        await manager.collect()
        await asyncio.sleep(1.0)  # steps end, and every episode waits for its turn
        monkeypatch.setattr(Tiring, "tired", False)
        before = ways_back(await manager.saved_state())
        monkeypatch.setattr(Tiring, "tired", True)
        filling = asyncio.create_task(manager.fill())
        await asyncio.sleep(0.1)
        after = ways_back(await manager.saved_state())
        await filling
        return [(before[key], after[key]) for key in before.keys() & after.keys()]

    async def play() -> list[tuple[Any, Any]]:
        manager, _ = manager_of(renderer, world, engine_of("1"))
        async with manager:
            return [pair for _ in range(4) for pair in await before_and_after(manager)]

    found = run_virtual(play())
    assert found and all(before and after for before, after in found)


def test_a_state_that_is_taken_while_an_episode_is_repeated_keeps_all_of_it(
    renderer: DeltaRenderer,
) -> None:
    async def begin() -> Any:
        manager, _ = manager_of(renderer, SlowReplayable, engine_of("1"))
        async with manager:
            for _ in range(5):
                await manager.collect()
            return await manager.saved_state()

    async def go_on(state: Any) -> list[Any]:
        manager, buffer = manager_of(renderer, SlowReplayable, engine_of("2", delay=0.3))
        buffer.draw(32)
        manager.load_state_dict(state, {task.id: task for task in TASKS})
        async with manager:
            filling = asyncio.create_task(manager.fill())
            states = []
            for _ in range(12):
                await asyncio.sleep(0.02)
                states.append(await manager.saved_state())
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)
            return states

    state = json.loads(json.dumps(run_virtual(begin())))
    recorded = recorded_tokens(state)
    assert len(repeated(state)) > 2
    for again in map(recorded_tokens, run_virtual(go_on(state))):
        assert recorded.keys() <= again.keys()
        assert all(again[key][: len(tokens)] == tokens for key, tokens in recorded.items())


@pytest.mark.parametrize("world", [Forgetful, Failing])
def test_an_episode_whose_way_back_fails_begins_afresh(renderer: DeltaRenderer, world: Any) -> None:
    async def play(manager: RolloutManager, batches: int) -> tuple[list[Any], Any]:
        async with manager:
            played = [await manager.collect() for _ in range(batches)]
            return played, await manager.saved_state()

    manager, buffer = manager_of(renderer, world, engine_of("1"))
    before, state = run_virtual(play(manager, 6))
    again, draws = manager_of(renderer, world, engine_of("2"))
    draws.load_state_dict(buffer.state_dict())
    again.load_state_dict(json.loads(json.dumps(state)), {task.id: task for task in TASKS})
    Failing.done.update(to_fail := repeated(state) if world is Failing else [])
    assert to_fail or world is Forgetful
    after, _ = run_virtual(play(again, 6))
    assert not +Failing.done, "they have failed"
    assert set(visits([*before, *after]).values()) == {1}
    episodes = [t for batch in after for group in batch.groups for t in group.trajectories]
    assert {episode.status for episode in episodes} == {Status.COMPLETED}


async def test_a_snapshot_that_comes_late_is_of_no_other_task(renderer: DeltaRenderer) -> None:
    """The group gave way to another task while the environment was asked."""
    asked, answer = asyncio.Event(), asyncio.Event()

    class Late(Snapshots):
        async def snapshot(self) -> Any:
            asked.set()
            await answer.wait()
            return await super().snapshot()

    interrupted = Interrupted({})
    play = interrupted.player(EnvironmentBridge(renderer, Late, LIMITS), 0)
    playing = asyncio.create_task(
        play(
            TASKS[0],
            engine=engine_of("1", delay=10.0),
            params=SamplingParams(max_tokens=200),
            seed=EpisodeSeed(3, "train", TASKS[0].id, 0, 0),
            evaluation=False,
        )
    )
    await asyncio.sleep(0.01)
    saving = asyncio.create_task(interrupted.save(lambda session: None))
    await asyncio.wait_for(asked.wait(), 10)
    interrupted.of_another_task()
    answer.set()
    assert await saving == {} == await interrupted.save(lambda session: None)
    playing.cancel()
    await asyncio.gather(playing, return_exceptions=True)
