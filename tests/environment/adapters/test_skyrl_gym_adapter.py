"""`type: skyrl_gym`: environments of SkyRL-gym, its own and one by its path."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("skyrl_gym", reason="needs SkyRL-gym: pip install 'retrain[skyrl-gym]'")

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from retrain.environment import make_environment_factory
from retrain.errors import EnvironmentFailure, MissingDependency
from retrain.testing import EnvironmentSuite
from retrain.types import Action, Message, Task

ROW = {"reward_spec": {"method": "rule", "ground_truth": "4"}, "extra_info": {"max_turns": 3}}


class Remembering(BaseTextEnv):
    """Keeps what it was given."""

    def __init__(self, env_config: Any, extras: dict[str, Any]) -> None:
        super().__init__()
        self.given = env_config, extras
        self.read: list[str] = []
        self.closed = False

    def step(self, action: str) -> Any:
        self.read.append(action)
        if action == "odd":
            return {"reward": 1.0}
        said = [{"role": "user", "content": "on"}, {"role": "user", "content": "and on"}]
        return BaseTextEnvStepOutput(observations=said, reward=0.5, done=False, metadata={"n": 1})

    def close(self) -> None:
        self.closed = True


class TestGsm8kMultiTurn(EnvironmentSuite):
    task = Task("kit", "What is 2 + 2?", metadata=ROW)
    other_task = Task("other", "What is 3 + 4?", label="7", metadata={"extra_info": {}})
    answer = "#### 4"

    def make_environment(self) -> Any:
        return make_environment_factory("skyrl_gym", {"id": "gsm8k_multi_turn", "max_turns": 3})()


async def test_a_right_answer_ends_the_episode_with_the_environment_s_reward() -> None:
    environment = make_environment_factory("skyrl_gym", {"id": "gsm8k_multi_turn"})()
    prompt = await environment.reset(Task("t", "2 + 2?", metadata=ROW), 1)
    results = [await environment.step(Action(text)) for text in ("#### 5", "no idea", "#### 4")]
    await environment.close()

    assert prompt.messages == (Message("user", "2 + 2?"),)
    assert [r.reward for r in results] == [pytest.approx(0.2 / 3), 0.0, 1.0]
    assert [r.terminated for r in results] == [False, False, True]
    assert results[0].observation.messages[0].content.startswith("Please provide your step-by-step")
    assert results[2].info == {"steps": 3}


async def test_the_label_is_the_ground_truth_where_the_row_names_none() -> None:
    environment = make_environment_factory("skyrl_gym", {"id": "gsm8k"})()
    await environment.reset(Task("t", "2 + 2?", label="4"), 1)
    result = await environment.step(Action("#### 4"))
    await environment.close()

    assert (result.reward, result.terminated) == (1.0, True)


async def test_it_gets_columns_configuration_and_the_reasoning_too() -> None:
    config = {"id": f"{__name__}:Remembering", "env_config": {"a": 1}, "max_turns": 4}
    environment = make_environment_factory("skyrl_gym", config)()
    await environment.reset(Task("t", "x", "7", {"column": [1]}), 1)
    env = environment.world.env
    result = await environment.step(Action("so", "hm"))
    await environment.close()

    spec = {"method": "rule", "ground_truth": "7"}
    assert env.given == ({"a": 1}, {"column": [1], "reward_spec": spec, "max_turns": 4})
    assert env.read == ["<think>\nhm\n</think>\n\nso"]
    assert [m.content for m in result.observation.messages] == ["on", "and on"]
    assert (result.reward, result.info) == (0.5, {"n": 1})
    assert env.closed


async def test_an_output_of_another_form_fails_with_the_reason() -> None:
    environment = make_environment_factory("skyrl_gym", {"id": f"{__name__}:Remembering"})()
    await environment.reset(Task("t", "x"), 1)

    with pytest.raises(EnvironmentFailure, match="without observations, done; expected a BaseText"):
        await environment.step(Action("odd"))
    await environment.close()


def test_its_absence_gives_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrain.environment.adapters.loading.find_spec", lambda _: None)

    with pytest.raises(MissingDependency, match=r"pip install 'retrain\[skyrl-gym\]'"):
        make_environment_factory("skyrl_gym", {"id": "gsm8k"})()
