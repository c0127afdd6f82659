"""An episode that is over while others of its group still play comes back whole after a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from counting_worlds import CountingWorld
from test_continuing import TASKS, before_and_after, over, recorded_tokens, visits

from bridges.kept import KeptEpisode
from retrain.environment.base import Environment
from retrain.errors import DataError, RewardFailure
from retrain.rendering import DeltaRenderer
from retrain.reward.completions import completion_of, prompt_of
from retrain.rollout.executors.world import RemoteWorld, capture
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Message,
    Segment,
    StopReason,
    Task,
    Trajectory,
    Turn,
    Witness,
)

SEARCH = {"type": "function", "function": {"name": "search", "parameters": {}}}


class World(CountingWorld):
    """Offers a tool, and may run in a worker."""

    remote: Mapping[str, Any] | None = None

    @property
    def tools(self) -> Any:
        return (SEARCH,)

    @property
    def world(self) -> Any:
        return self if self.remote is None else RemoteWorld(self.remote)


def episode(world: Environment) -> Trajectory:
    turn = Turn((5, 6), (-0.5, -0.25), FinishReason.STOP, Action("found"), "3", reward=2.0)
    said = (Message("user", "rain?"),), ((Message("tool", "yes"),),)
    return Trajectory(
        Task("weather", "rain?", label="yes", metadata={"row": 7}),
        EpisodeSeed(1, "train", "weather", 0, 2),
        (Segment((1, 2), (turn,)),),
        Status.COMPLETED,
        StopReason.TERMINATED,
        group_index=4,
        index=18,
        witness=Witness(world, *said),
    )


def through_json(kept: KeptEpisode | None) -> KeptEpisode:
    assert kept is not None
    return KeptEpisode.of_json(json.loads(json.dumps(kept.to_json())))


def test_it_comes_back_as_it_was_with_what_rewards_read() -> None:
    before = episode(World())
    task = Task("weather", "rain?")
    after = through_json(KeptEpisode.of(before, worlds=False)).restored(task)
    assert after.task is task
    assert (after.segments, after.seed, after.index) == (before.segments, before.seed, before.index)
    assert prompt_of(after) == prompt_of(before)
    assert completion_of(after, str) == completion_of(before, str)


def test_the_copy_of_a_worker_s_world_comes_back_too() -> None:
    world = World()
    world.count = 9
    world.remote = capture(CountingWorld())
    after = through_json(KeptEpisode.of(episode(world), worlds=True)).restored(TASKS[0])
    assert after.witness is not None
    assert after.witness.environment.world.count == 0, "the worker's, not ours"
    with pytest.raises(RewardFailure, match="can be called only where the environment is"):
        after.witness.environment.world.step()


def test_one_whose_world_rewards_may_read_and_lives_here_is_not_kept() -> None:
    assert KeptEpisode.of(episode(World()), worlds=True) is None


def test_a_damaged_one_is_named() -> None:
    kept = KeptEpisode.of(episode(World()), worlds=False)
    assert kept is not None
    row = kept.to_json()
    row["trajectory"]["status"] = "happy"
    with pytest.raises(DataError, match="an episode of a half-played group is damaged"):
        KeptEpisode.of_json(row)


def test_what_is_over_is_not_played_again_though_its_world_has_no_way_back(
    renderer: DeltaRenderer,
) -> None:
    before, saved, after, _ = before_and_after(renderer, CountingWorld)
    kept, written = over(saved), recorded_tokens(saved)
    assert kept, "some member ended before the others of its group"
    assert set(visits([*before, *after]).values()) == {1}
    found = {
        (group.index, member): episode
        for batch in after
        for group in batch.groups
        for member, episode in enumerate(group.trajectories)
    }
    back = kept & found.keys()
    assert back
    for key in back:
        turns = found[key].turns
        assert [i for turn in turns for i in turn.output_ids] == written[key]
        assert {version for turn in turns for _, version in turn.spans} == {"1"}
        assert found[key].reward == 1 + 2 + 3 + 4 + 400
    assert not sum(batch.tally.continued for batch in after)
