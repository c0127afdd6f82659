"""An asynchronous environment that blocks: its episode is named, and the others are played."""

from __future__ import annotations

import time
from typing import Any

from bridges import EnvironmentBridge, RewardBridge, RolloutBridge, RolloutSettings
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import Environment
from retrain.reward.calculator import RewardCalculator, RewardComponent
from retrain.rollout.request import GroupRequest
from retrain.runtime import EventLoopThread
from retrain.types import Action, Observation, StepResult, Task


class Sleepy(Environment):
    """Waits for one task without `await`."""

    async def reset(self, task: Task, seed: int) -> Observation:
        if task.id == "slow":
            time.sleep(1.0)
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        return StepResult(Observation(), terminated=True)


def test_the_task_and_the_line_that_block_are_named(bridge: Any, encode: Any) -> None:
    told: list[str] = []
    environment: EnvironmentBridge = bridge(Sleepy)
    rollouts = RolloutBridge(
        environment,
        RewardBridge(RewardCalculator([RewardComponent("one", "rollout", lambda _: 1.0)]), "grpo"),
        ScriptedEngine(lambda *_: encode("done<|im_end|>")),
        RolloutSettings(params=SamplingParams(max_tokens=100), n_samples=1),
    )
    requests = [GroupRequest(i, Task(name, "Go."), 0) for i, name in enumerate(("a", "slow", "b"))]
    with EventLoopThread(patience=0.2, tell=told.append) as thread:
        groups = thread.run(rollouts.collect(requests))
    assert [group.trajectories[0].error for group in groups] == [None] * 3
    (message,) = told
    assert "task 'slow', sample 0 has blocked the event loop for 0.2 s" in message
    assert f"{__file__}:" in message and "in Sleepy.reset" in message
