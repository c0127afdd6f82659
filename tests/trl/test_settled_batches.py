"""Running statistics of rewards: batch by batch, over a resume, the same on every process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backends.trl.batching import BatchFiller
from bridges import RewardBridge
from retrain.config.rewards import RewardSetupConfig
from retrain.engine.scripted import ScriptedEngine
from retrain.launch import Launch
from retrain.reward import build_reward_calculator
from retrain.reward.shaping import TOTAL
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.playing import Visit
from retrain.runtime import EventLoopThread
from retrain.sample import Status
from retrain.seeds import EpisodeSeed, derive_seed
from retrain.types import (
    Action,
    FinishReason,
    Group,
    Segment,
    StopReason,
    Task,
    Trajectory,
    Turn,
)

TASKS = {f"task-{n}": Task(f"task-{n}", "q") for n in range(12)}


def noise(trajectory: Trajectory) -> float:
    return derive_seed("noise", trajectory.task.id, trajectory.seed.sample_index) % 1000 / 7


def rewards() -> RewardBridge:
    component = {f"{__name__}:noise": {"normalisation": "running"}}
    setup = RewardSetupConfig.model_validate(
        {"rollout_reward_configs": component, "normalisation": "running"}
    )
    return RewardBridge(build_reward_calculator(setup, environment_rewards=False))


def episode(task: Task, index: int) -> Trajectory:
    turn = Turn((1,), (-0.5,), FinishReason.STOP, Action("x"))
    seed = EpisodeSeed(0, "train", task.id, 0, index)
    segments = (Segment((1,), (turn,)),)
    return Trajectory(task, seed, segments, Status.COMPLETED, StopReason.TERMINATED)


def filler(loop: EventLoopThread, buffer: DataBuffer, launch: Launch | None = None) -> BatchFiller:
    how = OverSampling(2)
    bridge = rewards()

    async def play(visit: Visit) -> Group:
        request = visit.request
        played = [episode(request.task, n) for n in range(3)]
        return await bridge.group(request.index, request.task, request.visit, played)

    gate = GatedEngine(ScriptedEngine(lambda *asked: [1]))
    batches = BatchFiller(RolloutManager(play, buffer, gate, how), how, 3, loop, launch or Launch())
    batches.rewards = bridge
    return batches


def tasks() -> DataBuffer:
    return DataBuffer([*TASKS.values()], seed=1)


def figures(groups: Any) -> list[Any]:
    return [
        (group.index, [t.trained_reward for t in group.trajectories], group.advantages)
        for group in groups
    ]


def test_a_resumed_run_normalises_as_the_whole_one() -> None:
    with EventLoopThread() as loop:
        whole = filler(loop, tasks())
        expected = [figures(whole.fill().groups) for _ in range(4)]
        buffer = tasks()
        first = filler(loop, buffer)
        found = [figures(first.fill().groups) for _ in range(2)]
        state = json.loads(json.dumps(first.state(buffer)))
        again = tasks()
        second = filler(loop, again)
        second.load(state, again, TASKS)
        found += [figures(second.fill().groups) for _ in range(2)]
        for batches in (whole, first, second):
            batches.close()
    assert found == expected
    assert state["rewards"]["moments"]["noise"]["count"] == 12
    assert len({value for batch in found for _, values, _ in batch for value in values}) == 24


class OneOfTwo(Launch):
    """A rank whose neighbour's batch is already known."""

    other: Any = None

    def gather(self, items: Any) -> list[Any]:
        return [*items, self.other]

    def agree(self, failure: Any) -> None:
        assert failure is None


def test_every_process_sees_the_batches_of_all() -> None:
    with EventLoopThread() as loop:
        neighbour = filler(loop, DataBuffer([*TASKS.values()], seed=1, rank=1, ranks=2))
        theirs = loop.run(neighbour._collect())
        launch = OneOfTwo(processes=2, rank=0)
        object.__setattr__(launch, "other", theirs)
        ours = filler(loop, DataBuffer([*TASKS.values()], seed=1, rank=0, ranks=2), launch)
        filled = ours.fill()
        for batches in (neighbour, ours):
            batches.close()
    assert len(filled.groups) == 4 and len(filled.own) == 2
    assert ours.rewards is not None
    moments = ours.rewards.state_dict()["moments"]
    assert (moments["noise"]["count"], moments[TOTAL]["count"]) == (12, 12)
    mine = {group.index for group in filled.own}
    assert figures(filled.own) == figures(g for g in filled.groups if g.index in mine)
    trained = [value for _, values, _ in figures(filled.groups) for value in values]
    assert sum(trained) == pytest.approx(0.0, abs=1e-9)
