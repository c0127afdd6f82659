"""The calculator of a configuration, with what reward functions of other frameworks are given."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from retrain.errors import ConfigError

if TYPE_CHECKING:
    from retrain.config import RunConfig
    from retrain.rendering.base import Renderer
    from retrain.reward import RewardCalculator
    from retrain.reward.completions import Decode

_ABSENT = ("reward_key", "eval_reward_key", "rm_type", "rm_url", "custom_rm_path")
"""Options of slime's that its own reward functions read, and that are not set here."""


def make_calculator(
    config: RunConfig, renderer: Renderer, decode: Decode, *, environment_rewards: bool
) -> RewardCalculator:
    """Build the calculator of `reward_setup`.

    Args:
        config: One stage's configuration.
        renderer: Decodes responses, for functions of slime's kind.
        decode: Gives the text of ids without special tokens, for functions of TRL's kind.
        environment_rewards: Whether the environment gives rewards.

    Raises:
        ConfigError: It cannot be built, or needs whole groups where slime plays one episode at a
            time; the key is named.
    """
    from bridges import DataFormatBridge
    from retrain.reward import build_reward_calculator
    from retrain.reward.slime_functions import SlimeStyle

    calculator = build_reward_calculator(
        config.reward_setup,
        timeout=config.rollout.reward_timeout,
        environment_rewards=environment_rewards,
        decode=decode,
        slime=SlimeStyle(slime_arguments(config), DataFormatBridge(renderer).to_samples),
    )
    if calculator.needs_groups and not _gives_groups(config):
        names = ", ".join(c.name for c in calculator.components if c.takes == "group")
        raise ConfigError(
            f"reward_setup.rollout_reward_configs: {names} is given whole groups, and slime's "
            "rollout manager scores one episode at a time; set "
            "algorithm.hyperparameters.slime_group_rm: true, or rollout.owner: retrain"
        )
    return calculator


def slime_arguments(config: RunConfig) -> Namespace:
    """The run's hyperparameters as slime's reward functions read them from `args`.

    By our names, by slime's where it has another word of the same meaning, and every `slime_X`.
    """
    from retrain.config import ROWS

    hyper = config.algorithm.hyperparameters
    own = {key: getattr(hyper, key) for key in ROWS}
    words = {row.slime.option: own[key] for key, row in ROWS.items() if row.slime.same}
    arguments: dict[str, Any] = {
        **dict.fromkeys(_ABSENT),
        **own,
        **{option: value for option, value in words.items() if option},
        "group_rm": False,
        "hf_checkpoint": config.model.name_or_path,
        "seed": config.seed,
        "rollout_seed": config.seed,
        **hyper.prefixed("slime"),
    }
    return Namespace(**arguments)


def _gives_groups(config: RunConfig) -> bool:
    """Whether whole groups are scored: not where slime's manager plays one episode at a time."""
    if config.algorithm.backend != "slime" or config.rollout.owner == "retrain":
        return True
    return bool(config.algorithm.hyperparameters.prefixed("slime").get("group_rm"))
