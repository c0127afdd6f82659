"""Reward functions as slime takes them: `async rm(args, sample, **kwargs)`, or over `samples`.

Source: slime 0.3.1 (624b824a), `slime/rollout/rm_hub/__init__.py`, `async_rm` and
`batched_async_rm`, which call what `--custom-rm-path` names.
"""

from __future__ import annotations

import inspect
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrain.sample import Sample
from retrain.types import Trajectory

GIVEN = ("args", "sample", "samples")
"""Arguments that slime gives by position."""

_KEY = "retrain"


@dataclass(frozen=True, slots=True)
class SlimeStyle:
    """What slime's functions are called with.

    Attributes:
        arguments: Slime's `args`: the run's hyperparameters by slime's names.
        to_samples: The samples of an episode, one per segment.
    """

    arguments: Namespace
    to_samples: Callable[[Trajectory], Sequence[Sample]]

    def sample(self, trajectory: Trajectory) -> Sample:
        """An episode as slime's function sees it, its reward not known yet.

        An episode of several segments is shown by its last one, which holds the answer.
        """
        shown = replace(trajectory, reward=0.0, rewards={}, masked=False)
        sample = self.to_samples(shown)[-1]
        sample.reward = None
        sample.metadata = {k: v for k, v in sample.metadata.items() if k != _KEY}
        return sample


class _Adapted:
    """What both kinds share: `args` with the component's parameters on it.

    Args:
        function: The function; synchronous or asynchronous.
        style: What it is called with.
        params: What it reads from `args`; those that it takes by name are given so, too.
    """

    def __init__(
        self, function: Callable[..., Any], style: SlimeStyle, params: Mapping[str, Any]
    ) -> None:
        self.function = function
        self._style = style
        self._arguments = Namespace(**{**vars(style.arguments), **params})
        named = set(inspect.signature(function).parameters) - set(GIVEN)
        self._named = {key: value for key, value in params.items() if key in named}

    def _call(self, given: Sample | list[Sample]) -> Any:
        return self.function(self._arguments, given, **self._named)


class SlimeReward(_Adapted):
    """Lets `rm(args, sample)` score an episode."""

    def __call__(self, trajectory: Trajectory) -> Any:
        """The reward of an episode, or an awaitable of it."""
        return self._call(self._style.sample(trajectory))


class SlimeGroupReward(_Adapted):
    """Lets `rm(args, samples)` score a group, as `--group-rm` does."""

    def __call__(self, group: Sequence[Trajectory]) -> Any:
        """The rewards of a group's episodes, or an awaitable of them."""
        return self._call([self._style.sample(trajectory) for trajectory in group])


def slime_reward(
    function: Callable[..., Any], style: SlimeStyle, params: Mapping[str, Any]
) -> SlimeReward | SlimeGroupReward:
    """A function of slime's kind as one that the calculator calls, without parameters.

    Args:
        function: The function.
        style: What it is called with.
        params: What it reads from `args` besides.
    """
    second = list(inspect.signature(function).parameters)[1]
    kind = SlimeGroupReward if second == "samples" else SlimeReward
    return kind(function, style, params)


def takes_samples(function: Callable[..., Any]) -> bool:
    """Whether a function is one of slime's kind: its parameters begin with `args, sample(s)`."""
    names = list(inspect.signature(function).parameters)
    return names[:1] == ["args"] and names[1:2] in (["sample"], ["samples"])
