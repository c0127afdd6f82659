"""Which groups slime's own collector keeps and takes back.

Every filter of retrain's is a function here too, for `--dynamic-sampling-filter-path`:
`backends.slime.filters.check_any_success`. `backends.slime.plugin.dynamic_filter` applies the one
that `rollout.filter` describes, with its parameters.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, MutableSequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

from backends.slime.context import Context, context_of
from backends.slime.framework import framework
from backends.slime.rewards import episode_of
from backends.slime.samples import flat
from backends.slime.votes import reward_of, vote_of, votes
from retrain.rollout.filters import FILTERS, GroupFilter, judge
from retrain.types import Group, Trajectory

_SLIMES = "rollout/dynamic_filter/drop_"
_OURS = "rollout/dropped"


def filter_group(args: Any, samples: Iterable[Any]) -> Any:
    """Keep a group that `rollout.filter` keeps; without one, a group whose rewards differ.

    Args:
        args: Slime's arguments.
        samples: The group's samples; an episode of several segments counts once.

    Returns:
        `DynamicFilterOutput`; the reason of a drop is the filter's. With `rollout.filter_fallback`
        slime keeps it all the same where too few groups would be left.

    Raises:
        ConfigError: The filter raised, or returned neither a bool nor a `FilterResult`.
    """
    context = context_of(args)
    if context.filter is None:
        return _noted(context, samples, _rewards_differ(args, samples))
    return _judged(context, args, context.filter, samples)


def take_oldest(buffer: MutableSequence[list[Any]], count: int) -> list[list[Any]]:
    """Take the `count` groups out of a buffer that have waited longest."""
    taken = list(buffer[:count])
    del buffer[:count]
    return taken


def dropped_by_slime(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What slime counts of dropped groups, under our names."""
    reasons = {
        name.removeprefix(_SLIMES): float(count)
        for name, count in metrics.items()
        if name.startswith(_SLIMES)
    }
    if not reasons:
        return {}
    return {_OURS: sum(reasons.values()), **{f"{_OURS}/{r}": n for r, n in reasons.items()}}


def __getattr__(name: str) -> Callable[..., Any]:
    """A filter of retrain's by its name, as slime calls filters."""
    if name not in FILTERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    filter_ = FILTERS.get(name)

    def filter_samples(args: Any, samples: Iterable[Any], **kwargs: Any) -> Any:
        return _judged(context_of(args), args, filter_, samples)

    return filter_samples


def _rewards_differ(args: Any, samples: Iterable[Any]) -> Any:
    groups = votes(args, samples).values()
    known = (reward for group in groups for reward in group.values() if reward is not None)
    rewards = [reward for reward in known if math.isfinite(reward)]
    if len(rewards) < 2:
        return framework().filter_output(keep=False, reason="fewer_than_two_valid_episodes")
    if min(rewards) == max(rewards):
        reason = f"all_rewards_are_{rewards[0]:.6g}"
        return framework().filter_output(keep=False, reason=reason)
    return framework().filter_output(keep=True)


def _judged(context: Context, args: Any, filter_: GroupFilter, samples: Iterable[Any]) -> Any:
    """Ask a filter; slime calls from its own loop and does not wait, so another thread does."""
    group = _group(context, args, samples)
    result = _thread().submit(asyncio.run, judge(filter_, group)).result()
    output = framework().filter_output(
        keep=result.keep,
        reason=result.reason or None,
        keep_when_insufficient=context.config.rollout.filter_fallback,
    )
    return _noted(context, samples, output)


def _noted(context: Context, samples: Iterable[Any], output: Any) -> Any:
    """Tell our data source of a group that is dropped: it is not to begin again."""
    if not output.keep and context.data_source is not None:
        context.data_source.handed_out.settle(sample.group_index for sample in flat(samples))
    return output


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="retrain-filter")


def _group(context: Context, args: Any, samples: Iterable[Any]) -> Group:
    """The group that slime's samples are of."""
    episodes: dict[Hashable, list[Any]] = {}
    for position, leaf in enumerate(flat(samples)):
        episodes.setdefault(vote_of(leaf, position), []).append(leaf)
    played = tuple(_episode(context, args, siblings) for siblings in episodes.values())
    index = next(iter(episodes.values()))[0].group_index
    first = played[0]
    return Group(-1 if index is None else index, first.task, first.seed.visit, played)


def _episode(context: Context, args: Any, siblings: list[Any]) -> Trajectory:
    played = episode_of(context, siblings)
    removed = all(sibling.remove_sample for sibling in siblings)
    return replace(
        played,
        reward=None if removed else reward_of(args, siblings[0]),
        masked=played.masked or removed,
    )
