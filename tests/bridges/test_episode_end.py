"""What an episode leaves behind: its final reward, and what reward functions may read."""

from __future__ import annotations

from typing import Any

import pytest
from echo_environment import PARAMS, SEED, Echo

from bridges import DataFormatBridge, RewardBridge
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import adapt
from retrain.errors import Boundary
from retrain.reward import ComponentKind, RewardCalculator, RewardComponent
from retrain.sample import Status
from retrain.types import Action, Message, StepResult, Task

TASK = Task("t", "What is 2 + 2?")
STOP = "<|im_end|>"


class Rated(Echo):
    """Rates the whole episode, and counts how often it is asked to."""

    asked = 0

    def __init__(self, *args: Any, earned: Any = 0.5) -> None:
        super().__init__(*args)
        self.earned = earned

    async def final_reward(self) -> float:
        self.asked += 1
        assert not self.closed
        return self.earned  # type: ignore[no-any-return]


class Broken(Rated):
    async def step(self, action: Action) -> StepResult:
        raise RuntimeError("broken")


async def play(bridge: Any, engine: Any) -> Any:
    return await bridge.run(TASK, engine=engine, params=PARAMS, seed=SEED)


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({}, Status.COMPLETED),
        ({"max_turns": 1}, Status.TRUNCATED),
        ({"max_response_len": 2}, Status.TRUNCATED),
    ],
)
async def test_the_last_turn_earns_the_final_reward_however_the_episode_ends(
    bridge: Any, encode: Any, limits: dict[str, int], status: Status
) -> None:
    environment = Rated(["again"], [0.0, 2.0])
    engine = ScriptedEngine([f"one two three{STOP}", f"four{STOP}"], encode=encode)

    trajectory = await play(bridge(adapt(environment), **limits), engine)

    assert (trajectory.status, environment.asked) == (status, 1)
    earlier = 2.0 if status is Status.COMPLETED else 0.0
    assert trajectory.turns[-1].reward == earlier + 0.5


async def test_a_failed_episode_is_not_rated(bridge: Any, encode: Any) -> None:
    environment = Broken()
    trajectory = await play(bridge(adapt(environment)), ScriptedEngine(["a"], encode=encode))

    assert (trajectory.status, environment.asked) == (Status.FAILED, 0)


async def test_a_final_reward_that_is_not_finite_fails_the_episode(
    bridge: Any, encode: Any
) -> None:
    environment = adapt(Rated(earned=float("nan")))
    trajectory = await play(bridge(environment), ScriptedEngine([f"a{STOP}"], encode=encode))

    assert trajectory.error.boundary is Boundary.ENVIRONMENT
    assert "final_reward returned the reward nan" in trajectory.error.reason


async def test_the_witness_holds_what_entered_the_stream_until_the_episode_is_scored(
    bridge: Any, encode: Any, renderer: Any
) -> None:
    environment = Echo(["again", "word " * 500])
    engine = ScriptedEngine([f"one{STOP}", f"two{STOP}"], encode=encode)
    seen = []

    def look(trajectory: Any) -> float:
        seen.append(trajectory.witness)
        return 1.0

    trajectory = await play(bridge(adapt(environment), max_response_len=100), engine)
    component = RewardComponent("look", ComponentKind.ROLLOUT, look)
    (scored,) = await RewardBridge(RewardCalculator([component])).score([trajectory])

    (witness,) = seen
    assert witness.environment.world is environment
    assert witness.prompt == TASK.messages
    assert witness.replies == ((Message("user", "again"),),), "the long reply did not fit"
    assert scored.witness is None


async def test_an_episode_that_is_not_scored_can_be_converted(
    bridge: Any, encode: Any, renderer: Any
) -> None:
    trajectory = await play(bridge(adapt(Echo())), ScriptedEngine([f"a{STOP}"], encode=encode))
    converter = DataFormatBridge(renderer)

    assert trajectory.witness is not None
    assert converter.to_trajectory(converter.to_samples(trajectory)) == trajectory
