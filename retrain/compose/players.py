"""Episodes for programs of their own, which have no configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrain.engine.base import InferenceEngine
    from retrain.rollout.request import GroupRequest
    from retrain.sample import Sample
    from retrain.types import Trajectory


def agent_rollouts(
    environment_cls: Callable[..., Any], engine: InferenceEngine, tokenizer: Any, **bounds: Any
) -> Callable[[Sequence[tuple[GroupRequest, int]]], Awaitable[list[Sample]]]:
    """What plays episodes without a configuration, and gives their samples.

    Args:
        environment_cls: Makes the environment.
        engine: Writes the model's turns.
        tokenizer: The model's tokenizer, with its chat template.
        **bounds: As `bridges.agents.make_player` takes them.

    Raises:
        ConfigError: The template cannot be exact, or it is no environment.
    """
    from bridges.agents import make_player

    return make_player(environment_cls, engine, tokenizer, **bounds)


def episodes_of(
    samples: Sequence[Sample], request: GroupRequest, count: int
) -> tuple[Trajectory, ...]:
    """The episodes of a group's samples, for filters and advantages.

    Args:
        samples: In order; those of one episode share `rollout_id`.
        request: The group.
        count: How many episodes it must have.

    Raises:
        ConfigError: It has another number.
    """
    from bridges.agents import episodes_of as rebuild

    return rebuild(samples, request, count)
