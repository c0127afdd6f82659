"""`reward_setup` in words: every key reaches the calculator, every mistake is named at its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reward_episodes import make_episode

from retrain.config import load_config
from retrain.config.rewards import RewardSetupConfig
from retrain.errors import ConfigError
from retrain.reward import (
    Distribution,
    Normalisation,
    Normalising,
    OnFailure,
    RewardCalculator,
    build_reward_calculator,
)
from retrain.reward.shaping import TOTAL
from retrain.types import Trajectory

HERE = __name__


def many(trajectories: list[Trajectory]) -> list[float]:
    return [1.0] * len(trajectories)


def worst(values: dict[str, float], weights: dict[str, float]) -> float:
    return min(values.values())


def no_weights(values: dict[str, float]) -> float:
    return 0.0


def build(section: dict[str, Any], **options: Any) -> RewardCalculator:
    return build_reward_calculator(RewardSetupConfig.model_validate(section), **options)


async def test_every_key_reaches_the_calculator() -> None:
    calculator = build(
        {
            "environment_reward_discount": 0.5,
            "combination": f"{HERE}:worst",
            "normalisation": "running",
            "clip": [-5, 5],
            "step_reward_configs": {"exact_match": {"discount": 0.9, "distribution": "own"}},
            "rollout_reward_configs": {
                f"{HERE}:many": {
                    "on_failure": "retry",
                    "timeout": 3,
                    "run_in": "process",
                    "batch_size": 4,
                    "batch_tokens": 1000,
                    "reward_key": "score",
                    "distribution": "discounted",
                    "discount": 0.5,
                    "normalisation": "clip",
                    "clip": [0, 1],
                },
                "tool_use": {"on_failure": "value", "value": 0.0, "retries": 3},
            },
        },
        timeout=9.0,
    )
    environment, step, batch, tools = calculator.components
    assert environment.discount == 0.5
    assert (step.discount, step.distribution) == (0.9, Distribution.OWN)
    assert (batch.on_failure, batch.retries, batch.timeout) == (OnFailure.RETRY, 2, 3.0)
    assert (batch.process, batch.batch_size, batch.batch_tokens) == (f"{HERE}:many", 4, 1000)
    assert (batch.reward_key, batch.distribution) == ("score", Distribution.DISCOUNTED)
    assert batch.normalisation == Normalising(Normalisation.CLIP, (0.0, 1.0))
    assert (tools.retries, tools.timeout, tools.process) == (3, 9.0, None)
    assert calculator.shaping.total == Normalising(Normalisation.RUNNING, (-5.0, 5.0))
    assert calculator.shaping.running == (TOTAL,)
    assert calculator.combination.combine is worst


async def test_rescale_and_names_of_combinations() -> None:
    calculator = build({"missing": "rescale", "rollout_reward_configs": {"tool_use": {}}})
    assert calculator.combination.rescale
    mean = build({"combination": "mean", "rollout_reward_configs": {"tool_use": {"weight": 3}}})
    (scored,) = await mean.score([make_episode("x", rewards=[1.0])])
    assert scored.total == 0.25


def test_nothing_is_normalised_or_recorded_where_nothing_says_so() -> None:
    calculator = build({})
    assert not calculator.shaping.changes and not calculator.combination.rescale
    assert [c.distribution for c in calculator.components] == [None]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"combination": "maximum"}, r"reward_setup\.combination: unknown combination 'maximum'"),
        ({"combination": f"{HERE}:no_weights"}, r"must take \(values, weights\)"),
        (
            {"combination": "mean", "environment_reward_weight": 0.0},
            r"nothing is rewarded|needs a weight",
        ),
        (
            {"rollout_reward_configs": {"dapo": {"reward_key": "acc"}}},
            r"dapo\.reward_key: .* write params: \{reward_key: acc\}",
        ),
        (
            {
                "rollout_reward_configs": {
                    "remote": {"reward_key": "r", "params": {"url": "http://127.0.0.1:9/"}}
                }
            },
            r"remote\.reward_key: .* write params: \{reward_key: r\}",
        ),
        (
            {"rollout_reward_configs": {"tool_use": {"batch_size": 2}}},
            r"tool_use\.batch_size: the function takes one episode at a time; let its first",
        ),
        (
            {
                "combination": "mean",
                "environment_reward_weight": 0.0,
                "rollout_reward_configs": {"tool_use": {"weight": 0.0}},
            },
            r"reward_setup\.combination: a mean needs a weight that is not 0",
        ),
    ],
)
def test_what_cannot_be_built_is_named(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(section)


FILE = """
experiment_name: x
model: {name_or_path: m}
environment: {type: "a:B"}
prompt_source: {type: list, source_config: {items: [a]}}
algorithm: {name: grpo, backend: trl, hyperparameters: {num_iterations: 1}}
reward_setup:
  SECTION
"""


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("normalisation: clip", r"clip: must be set with `normalisation: clip`"),
        ("clip: [1, 1]", r"clip: expected \[least, largest\], got \[1.0, 1.0\]"),
        ("normalisation: zscore", r"normalisation: .*zscore"),
        ("{missing: rescale, combination: min}", r"missing: rescale is for `combination: sum`"),
        ("environment_reward_discount: 1.5", r"environment_reward_discount: .*1.5"),
        (
            "rollout_reward_configs: {f1: {distribution: own}}",
            r"f1\.distribution: own is for step rewards",
        ),
        (
            "rollout_reward_configs: {f1: {discount: 0.9}}",
            r"f1\.discount: a rollout reward takes it with `distribution: discounted` only",
        ),
        (
            "rollout_reward_configs: {f1: {distribution: discounted}}",
            r"f1\.discount: must be set with `distribution: discounted`",
        ),
        (
            "step_reward_configs: {tool_use: {batch_tokens: 5}}",
            r"tool_use\.batch_tokens: is for functions of many episodes",
        ),
        (
            "rollout_reward_configs: {f1: {on_failure: retry, retries: 0}}",
            r"f1\.retries: expected at least 1 with `on_failure: retry`",
        ),
        (
            "rollout_reward_configs: {f1: {verifier_penalty: -1}}",
            r"f1\.verifier_penalty: is for `verifiers`, and there is none",
        ),
        ("rollout_reward_configs: {f1: {retries: 101}}", r"f1\.retries: .*101"),
        ("rollout_reward_configs: {f1: {run_in: gpu}}", r"f1\.run_in: .*gpu"),
        ("rollout_reward_configs: {f1: {timeout: 0}}", r"f1\.timeout: .*0"),
        ("rollout_reward_configs: {f1: {normalise: group}}", r"did you mean 'normalisation'"),
    ],
)
def test_a_mistake_in_the_file_is_named_at_its_line(
    tmp_path: Path, section: str, said: str
) -> None:
    path = tmp_path / "config.yaml"
    text = section.replace(
        "{missing: rescale, combination: min}", "missing: rescale\n  combination: min"
    )
    path.write_text(FILE.replace("SECTION", text), encoding="utf-8")
    with pytest.raises(ConfigError, match=said) as caught:
        load_config(path)
    assert "config.yaml" in str(caught.value) and "reward_setup" in str(caught.value)
