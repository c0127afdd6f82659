"""What a reward is made of, and what scoring an episode gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from retrain.errors import EpisodeError
from retrain.reward.registry import Verifier


class ComponentKind(StrEnum):
    """Where a component's value comes from."""

    ENVIRONMENT = "environment"
    STEP = "step"
    ROLLOUT = "rollout"


class OnFailure(StrEnum):
    """What an exception, a timeout or a value that is no finite number leads to."""

    DROP = "drop"
    RAISE = "raise"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class RewardComponent:
    """One named part of the reward.

    Attributes:
        name: Its name in metrics.
        kind: The environment's own rewards, a function per turn, or one per episode.
        function: The reward function; None for the environment's own rewards.
        params: Keyword arguments of the function.
        weight: Its factor in the sum.
        verifiers: What an episode must meet for the component to count.
        verifier_penalty: The component's value where one of them does not hold.
        on_failure: What happens where it fails.
        value: Its value where it fails and `on_failure` is `value`.
        timeout: Seconds for one episode (a batch function: for one call); None waits for ever.
    """

    name: str
    kind: ComponentKind
    function: Callable[..., Any] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    verifiers: tuple[Verifier, ...] = ()
    verifier_penalty: float = 0.0
    on_failure: OnFailure = OnFailure.DROP
    value: float = 0.0
    timeout: float | None = 60.0

    def __post_init__(self) -> None:
        if (self.function is None) != (self.kind is ComponentKind.ENVIRONMENT):
            raise ValueError(
                f"reward component {self.name!r} of kind {self.kind}: a function is "
                "needed, except for the environment's own rewards"
            )
        if not all(map(math.isfinite, (self.weight, self.verifier_penalty, self.value))):
            raise ValueError(f"reward component {self.name!r}: its numbers must be finite")


@dataclass(frozen=True, slots=True)
class Scored:
    """What scoring one episode gives.

    Attributes:
        total: The weighted sum; None where a component was dropped, where none applies, and where
            the episode failed or was aborted.
        components: The raw value of each component that has one, before its weight.
        error: The first failure of a component, also where `value` replaced it; for an episode
            that is not scored, the episode's own.
        dropped: Whether a component's failure left the episode without a total.
    """

    total: float | None
    components: Mapping[str, float] = field(default_factory=dict)
    error: EpisodeError | None = None
    dropped: bool = False
