"""An environment that cannot give its snapshot costs its episode's place, never the run."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from counting_worlds import Snapshots
from test_continuing import TASKS, engine_of, manager_of, visits
from virtual_clock import run_virtual

from retrain.rendering import DeltaRenderer
from retrain.sample import Status


class Broken(Snapshots):
    """Raises."""

    async def snapshot(self) -> Any:
        raise OSError("the world has no disk")


class Opaque(Snapshots):
    """Gives something that cannot be written down."""

    async def snapshot(self) -> Any:
        return {"count": object()}


class Misled(Snapshots):
    """Raises what crosses every boundary as it is."""

    async def snapshot(self) -> Any:
        from retrain.errors import MissingDependency

        raise MissingDependency("pip install nothing-of-the-kind")


class ReplayableBroken(Broken):
    """Needs no snapshot."""

    replayable = True


@pytest.mark.parametrize("world", [Broken, Opaque, Misled, ReplayableBroken])
def test_the_run_goes_on_and_a_resume_begins_the_episode_afresh(
    renderer: DeltaRenderer, world: Any
) -> None:
    async def first() -> Any:
        manager, buffer = manager_of(renderer, world, engine_of("1"))
        async with manager:
            batches = [await manager.collect() for _ in range(3)]
            position = buffer.state_dict()
            states = [await manager.saved_state() for _ in range(3)]
            batches += [await manager.collect()]
            return batches, position, states[0]

    async def second(position: Any, state: Any) -> Any:
        manager, buffer = manager_of(renderer, world, engine_of("2"))
        buffer.load_state_dict(position)
        manager.load_state_dict(state, {task.id: task for task in TASKS})
        async with manager:
            return [await manager.collect() for _ in range(8)]

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        batches, position, state = run_virtual(first())
    told = [str(w.message) for w in said if "rollout state" in str(w.message)]
    assert len(told) == 1 and world.__name__ in told[0], "it is said, and once"
    assert any(row["records"] for row in state["pending"])
    json_state, json_position = json.loads(json.dumps([state, position]))
    after = run_virtual(second(json_position, json_state))
    assert set(visits([*batches[:3], *after]).values()) == {1}
    episodes = [t for batch in after for group in batch.groups for t in group.trajectories]
    assert {episode.status for episode in episodes} == {Status.COMPLETED}
    assert {episode.reward for episode in episodes} == {1 + 2 + 3 + 4 + 400}
