"""The hub's rules as reward functions over episodes: each name of the hub is one here.

A function takes the trajectory and the keyword arguments of its rule. What the rule sees is the
last turn, its reasoning put back before it as `<think>…</think>` where the format parted them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from retrain.reward.hub.cases import Case, reward_in
from retrain.reward.hub.catalogue import KEYED, NAMES, SERVICE_NAMES, load_rule, plain_name
from retrain.reward.hub.scoring import make_scorer
from retrain.types import Trajectory


def case_of(trajectory: Trajectory) -> Case:
    """What a rule sees of an episode."""
    action = trajectory.turns[-1].action
    reasoning = f"<think>{action.reasoning}</think>" if action.reasoning else ""
    return Case(
        reasoning + action.text,
        trajectory.task.label,
        trajectory.task.metadata,
        sum(len(turn.output_ids) for turn in trajectory.turns),
        trajectory.task.prompt,
    )


def episode_reward(name: str) -> Callable[..., Any]:
    """The reward over episodes of a rule.

    Args:
        name: The rule's name, with or without `boxed_`.

    Raises:
        ConfigError: There is no such rule.
        MissingDependency: It needs a package that is not installed.
    """
    rule, score = load_rule(name), make_scorer(name)

    @functools.wraps(rule)
    def reward(trajectory: Trajectory, *, reward_key: str = "score", **params: Any) -> Any:
        return reward_in(score(case_of(trajectory), **params), reward_key)

    return _described(reward, rule, name)


def _described(
    reward: Callable[..., Any], rule: Callable[..., Any], name: str
) -> Callable[..., Any]:
    """Let a reward show the keyword arguments of its rule."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [p for p in inspect.signature(rule).parameters.values() if p.kind is keyword]
    if plain_name(name) in KEYED:
        options.append(inspect.Parameter("reward_key", keyword, default="score", annotation="str"))
    first = inspect.Parameter("trajectory", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    described: Any = reward
    described.__signature__ = inspect.Signature([first, *options])
    described.__annotations__ = {p.name: p.annotation for p in options}
    described.__name__ = described.__qualname__ = name
    return reward


def __getattr__(name: str) -> Callable[..., Any]:
    if name in SERVICE_NAMES:
        from retrain.reward.hub.service_rewards import service_reward

        return service_reward(name)
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return episode_reward(name)
