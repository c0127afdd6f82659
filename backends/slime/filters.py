"""`dynamic_filter` and `buffer_filter`: which groups slime's own collector keeps and takes back."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from typing import Any

from backends.slime.framework import framework
from backends.slime.votes import votes


def filter_group(args: Any, samples: Iterable[Any]) -> Any:
    """Keep a group whose episodes differ in their reward: any other has no advantages.

    Args:
        args: Slime's arguments.
        samples: The group's samples; an episode of several segments counts once.

    Returns:
        `DynamicFilterOutput`; the reason of a drop names the reward that all have.
    """
    groups = votes(args, samples).values()
    rewards = [reward for group in groups for reward in group.values() if reward is not None]
    if len(rewards) < 2:
        return framework().filter_output(keep=False, reason="fewer_than_two_valid_episodes")
    if min(rewards) == max(rewards):
        reason = f"all_rewards_are_{rewards[0]:.6g}"
        return framework().filter_output(keep=False, reason=reason)
    return framework().filter_output(keep=True)


def take_oldest(buffer: MutableSequence[list[Any]], count: int) -> list[list[Any]]:
    """Take the `count` groups out of a buffer that have waited longest."""
    taken = list(buffer[:count])
    del buffer[:count]
    return taken
