"""Dynamic filters: which groups are worth training on.

A filter takes a `Group` and returns a bool or a `FilterResult`. Those here look at the valid slots
of the group alone, so a failed or masked episode neither keeps a group nor drops it, and none of
them is confused by NaN.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from statistics import fmean
from typing import TypeAlias

from retrain.errors import ConfigError, RewardFailure, boundary
from retrain.registry import Registry
from retrain.report.attempts import SUCCESS_REWARD, attempts_by_task
from retrain.report.batch_metrics import sampled_tokens
from retrain.reward.advantages import by_agent
from retrain.types import Group, Trajectory


@dataclass(frozen=True, slots=True)
class FilterResult:
    """What a filter says about a group.

    Attributes:
        keep: Whether to train on it.
        reason: Why not, as a short word that is counted ("zero_std"); "" where it is kept.
    """

    keep: bool
    reason: str = ""


GroupFilter: TypeAlias = Callable[..., "bool | FilterResult | Awaitable[bool | FilterResult]"]
"""`(group, **params)` -> whether to keep it."""

FILTERS: Registry[GroupFilter] = Registry("filter", "retrain.filters")


async def judge(filter_: GroupFilter, group: Group) -> FilterResult:
    """Ask a filter about a group.

    Args:
        filter_: The filter, its parameters bound.
        group: The group.

    Raises:
        ConfigError: It raised, or returned neither a bool nor a `FilterResult`.
    """
    name = filter_name(filter_)
    try:
        async with boundary(RewardFailure, f"rollout.filter {name!r}"):
            answer = filter_(group)
            if isawaitable(answer):
                answer = await answer
    except RewardFailure as failure:
        raise ConfigError(f"{failure} (group of task {group.task.id!r})") from failure
    if isinstance(answer, FilterResult):
        return answer if answer.keep else FilterResult(False, answer.reason or name)
    if isinstance(answer, bool):
        return FilterResult(answer, "" if answer else name)
    raise ConfigError(
        f"rollout.filter {name!r}: returned {answer!r:.60} for the group of task "
        f"{group.task.id!r}; a filter returns True, False or a FilterResult"
    )


def filter_name(filter_: GroupFilter) -> str:
    """The name of a filter, in messages and counts."""
    inner = getattr(filter_, "func", filter_)
    return str(getattr(inner, "__name__", type(inner).__name__))


@FILTERS.register("check_reward_nonzero_std")
def check_reward_nonzero_std(group: Group, *, min_std: float = 0.0) -> FilterResult:
    """Keep a group whose rewards differ: where all are the same, every advantage is 0.

    Of several agents, those of one at least must differ; or those of all, where the group's
    advantages compare all (`algorithm.baseline: group`).

    Args:
        group: The group.
        min_std: The sample standard deviation that must be exceeded.
    """
    compared = [rewards for rewards in _rewards_by_agent(group) if len(rewards) > 1]
    if any(group.advantages) and all(min(rewards) == max(rewards) for rewards in compared):
        compared = [_rewards(group)]
    if not compared:
        return FilterResult(False, "fewer_than_two_valid")
    if any(min(rewards) < max(rewards) and _std(rewards) > min_std for rewards in compared):
        return FilterResult(True)
    return FilterResult(False, f"zero_std_{round(compared[0][0], 1):g}")


@FILTERS.register("check_min_reward")
def check_min_reward(group: Group, *, min_reward: float = 0.0) -> FilterResult:
    """Keep a group with at least one episode whose reward is `min_reward` or more."""
    best = max(_rewards(group), default=-math.inf)
    return FilterResult(best >= min_reward, "" if best >= min_reward else "low_reward")


@FILTERS.register("check_any_success")
def check_any_success(group: Group, *, threshold: float = SUCCESS_REWARD) -> FilterResult:
    """Keep a group with at least one episode that solved its task.

    Args:
        group: The group.
        threshold: The least reward of a solved task, where the environment reports no success.
    """
    (attempts,) = attempts_by_task([group], threshold=threshold)
    return FilterResult(any(attempts), "" if any(attempts) else "no_success")


@FILTERS.register("check_response_diversity")
def check_response_diversity(group: Group, *, min_distinct: float = 0.5) -> FilterResult:
    """Keep a group whose episodes are not the same over and over.

    Args:
        group: The group.
        min_distinct: Share of distinct sampled token sequences among the valid episodes, 0 to 1.
    """
    written = [tuple(turn.output_ids for turn in t.turns) for t in _valid(group)]
    distinct = len(set(written)) / len(written) if written else 0.0
    return FilterResult(distinct >= min_distinct, "" if distinct >= min_distinct else "repetitive")


@FILTERS.register("check_reasonable_length")
def check_reasonable_length(
    group: Group, *, min_tokens: int = 1, max_tokens: int | None = None
) -> FilterResult:
    """Keep a group whose episodes are, on average, neither too short nor too long.

    Args:
        group: The group.
        min_tokens: Least tokens that an episode's model turns have together, on average.
        max_tokens: Most; None is no bound.
    """
    lengths = [sampled_tokens(t) for t in _valid(group)]
    mean = fmean(lengths) if lengths else 0.0
    if mean < min_tokens:
        return FilterResult(False, "too_short")
    if max_tokens is not None and mean > max_tokens:
        return FilterResult(False, "too_long")
    return FilterResult(True)


@FILTERS.register("check_quality_and_diversity")
def check_quality_and_diversity(
    group: Group, *, min_reward: float = 0.0, min_std: float = 0.0, min_distinct: float = 0.5
) -> FilterResult:
    """Keep a group that passes `check_min_reward`, `..._nonzero_std` and `..._diversity`."""
    checks = (
        check_min_reward(group, min_reward=min_reward),
        check_reward_nonzero_std(group, min_std=min_std),
        check_response_diversity(group, min_distinct=min_distinct),
    )
    return next((check for check in checks if not check.keep), FilterResult(True))


def all_of(*filters: GroupFilter) -> GroupFilter:
    """A filter that keeps what every one of `filters` keeps; the first refusal is the reason."""

    async def all_of(group: Group) -> FilterResult:
        for filter_ in filters:
            result = await judge(filter_, group)
            if not result.keep:
                return result
        return FilterResult(True)

    return all_of


def any_of(*filters: GroupFilter) -> GroupFilter:
    """A filter that keeps what at least one of `filters` keeps; all the reasons are the reason."""

    async def any_of(group: Group) -> FilterResult:
        reasons: list[str] = []
        for filter_ in filters:
            result = await judge(filter_, group)
            if result.keep:
                return result
            reasons.append(result.reason)
        return FilterResult(False, "+".join(reasons))

    return any_of


def not_(filter_: GroupFilter) -> GroupFilter:
    """A filter that keeps what `filter_` drops."""

    async def not_(group: Group) -> FilterResult:
        result = await judge(filter_, group)
        return FilterResult(not result.keep, f"not_{filter_name(filter_)}" if result.keep else "")

    return not_


def _valid(group: Group) -> list[Trajectory]:
    return [trajectory for trajectory in group.trajectories if trajectory.valid]


def _rewards(group: Group) -> list[float]:
    """The finite rewards of the valid slots."""
    return [reward for rewards in _rewards_by_agent(group) for reward in rewards]


def _rewards_by_agent(group: Group) -> list[list[float]]:
    """The finite rewards of the valid slots of each agent."""
    agents = by_agent([episode.agent for episode in _valid(group)])
    slots = [[t.reward for t in map(_valid(group).__getitem__, slots)] for slots in agents]
    return [[r for r in rewards if r is not None and math.isfinite(r)] for rewards in slots]


def _std(rewards: list[float]) -> float:
    """The sample standard deviation (ddof 1)."""
    mean = math.fsum(reward / len(rewards) for reward in rewards)
    return math.hypot(*(reward - mean for reward in rewards)) / math.sqrt(len(rewards) - 1)
