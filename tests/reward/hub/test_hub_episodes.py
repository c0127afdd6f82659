from __future__ import annotations

from dataclasses import replace

import pytest

from retrain.config.rewards import RewardSetupConfig
from retrain.errors import ConfigError
from retrain.reward.hub.catalogue import NAMES
from retrain.reward.registry import REWARDS
from retrain.reward.setup import build_reward_calculator
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, FinishReason, Segment, StopReason, Task, Trajectory, Turn


def episode(text: str, label: object, *, reasoning: str = "", tokens: int = 2) -> Trajectory:
    turn = Turn((1,) * tokens, (-0.1,) * tokens, FinishReason.STOP, Action(text, reasoning))
    return Trajectory(
        task=Task("t", "Go.", label=label),
        seed=EpisodeSeed(0, "train", "t", 0, 0),
        segments=(Segment((1,), (turn,)),),
        status=Status.COMPLETED,
        stop_reason=StopReason.TERMINATED,
    )


def configured(**components: dict) -> RewardSetupConfig:
    return RewardSetupConfig.model_validate(
        {"rollout_reward_configs": components, "environment_reward_weight": 0}
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_is_a_reward_by_its_name(name: str) -> None:
    assert callable(REWARDS.get(name))
    params = {"most": 10} if name.endswith("length") else {}
    build_reward_calculator(configured(**{name: {"params": params}}), environment_rewards=False)


async def test_rules_score_episodes_side_by_side() -> None:
    calculator = build_reward_calculator(
        configured(
            math={"weight": 2.0},
            boxed_exact={},
            dapo={"params": {"compat": "slime", "reward_key": "acc"}},
            deepscaler={},
            length={"params": {"most": 4, "cache": 4}},
        ),
        environment_rewards=False,
    )
    text = "Answer: 2\n\\boxed{2}"
    (scored,) = await calculator.score([episode(text, "2", reasoning="so")])
    assert scored.components == {
        "math": 1.0,
        "boxed_exact": 1.0,
        "dapo": 1.0,
        "deepscaler": 1.0,
        "length": -0.5,
    }
    assert scored.total == 4.5


async def test_a_broken_label_drops_the_episode_and_no_other() -> None:
    calculator = build_reward_calculator(configured(math={}), environment_rewards=False)
    good, bad = await calculator.score([episode("\\boxed{1}", 1), episode("\\boxed{1}", None)])
    assert good.total == 1.0
    assert bad.total is None and bad.dropped
    assert bad.error is not None and "math needs a label" in bad.error.reason


async def test_a_reasoning_that_the_format_parted_is_put_back() -> None:
    calculator = build_reward_calculator(
        configured(format={"params": {"answer": None}}), environment_rewards=False
    )
    with_reasoning, without = await calculator.score(
        [episode("2", "2", reasoning="1+1"), replace(episode("2", "2"))]
    )
    assert (with_reasoning.total, without.total) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("math", {"sekonds": 1}, "did you mean 'seconds'"),
        ("math", {"compat": "verl"}, "compat"),
        ("exact", {"compat": "slime"}, "takes no 'compat'"),
        ("math", {"reward_key": "score"}, "takes no 'reward_key'"),
        ("length", {}, "params.most: missing"),
        ("regex", {"seconds": "1"}, "seconds"),
    ],
)
def test_a_wrong_parameter_is_named_before_anything_runs(
    name: str, params: dict, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build_reward_calculator(configured(**{name: {"params": params}}), environment_rewards=False)
