"""Who votes in a group: one episode, one reward, whatever the number of its samples."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from backends.slime.samples import flat
from retrain.errors import ConfigError

_VALID = ("completed", "truncated")


def votes(args: Any, samples: Iterable[Any]) -> dict[Hashable, dict[Hashable, float | None]]:
    """The reward of every episode, by group and by episode.

    Args:
        args: Slime's arguments; `reward_key` chooses from rewards that are mappings.
        samples: Slime's samples, in any nesting.

    Returns:
        Group index -> `vote_of` -> reward, both in order of appearance; None for an episode that
        is removed, failed or aborted.
    """
    groups: dict[Hashable, dict[Hashable, float | None]] = {}
    for position, sample in enumerate(flat(samples)):
        group = groups.setdefault(sample.group_index, {})
        vote = vote_of(sample, position)
        if group.get(vote) is None:
            group[vote] = _valid_reward(args, sample)
    return groups


def vote_of(sample: Any, position: int) -> Hashable:
    """Names a sample's episode: its rollout id, or its place where it has none."""
    return ("position", position) if sample.rollout_id is None else ("rollout", sample.rollout_id)


def reward_of(args: Any, sample: Any) -> float | None:
    """A sample's reward as a number; None where it is not known.

    Raises:
        ConfigError: It is a mapping, and no `--reward-key` chooses from it.
    """
    reward = sample.reward
    if not isinstance(reward, Mapping):
        return None if reward is None else float(reward)
    key = getattr(args, "reward_key", None)
    if key not in reward:
        raise ConfigError(
            f"sample {sample.index}: the reward is a mapping of {', '.join(map(str, reward))}; "
            f"--reward-key must name one of them, and is {key!r}"
        )
    return float(reward[key])


def _valid_reward(args: Any, sample: Any) -> float | None:
    valid = not sample.remove_sample and sample.status.value in _VALID
    return reward_of(args, sample) if valid else None
