"""What a reward is made of, and what scoring an episode gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from retrain.errors import EpisodeError
from retrain.reward.distribution import Distribution
from retrain.reward.normalisation import UNCHANGED, Normalising
from retrain.reward.registry import Verifier
from retrain.reward.taking import Takes, takes_of
from retrain.types import Scoring


class ComponentKind(StrEnum):
    """Where a component's value comes from."""

    ENVIRONMENT = "environment"
    STEP = "step"
    ROLLOUT = "rollout"


class OnFailure(StrEnum):
    """What an exception, a timeout or a value that is no finite number leads to."""

    RETRY = "retry"
    DROP = "drop"
    RAISE = "raise"
    VALUE = "value"


@runtime_checkable
class Measured(Protocol):
    """A reward function that holds connections, and counts what it does with them."""

    def measured(self) -> Mapping[str, float]:
        """What was counted since the last call, by name."""

    def summary(self) -> str:
        """What was counted in all, in a line; "" where that is nothing."""

    def close(self) -> None:
        """Close the connections, from any thread; a later call opens new ones."""


@dataclass(frozen=True, slots=True)
class RewardComponent:
    """One named part of the reward.

    Attributes:
        name: Its name in metrics.
        kind: The environment's own rewards, a function per turn, or one per episode.
        function: The reward function; None for the environment's own rewards.
        params: Keyword arguments of the function.
        weight: Its factor in the combination.
        verifiers: What an episode must meet for the component to count.
        verifier_penalty: The component's value where one of them does not hold.
        on_failure: What happens where it fails; `retry` tries again and then drops the episode.
        value: Its value where it fails and `on_failure` is `value`.
        timeout: Seconds for one call, of an episode or of a chunk; None waits for ever.
        retries: How often a call that failed is made again.
        batch_size: Most episodes in one call of a function over many.
        batch_tokens: Most tokens in one such call, every episode counted as the longest one.
        process: A name or import path of the function, which is then called in a process that is
            killed where it is late; None calls it here.
        reward_key: Where the number stands in a reward that is a mapping.
        distribution: How the value is recorded over the turns; None records nothing.
        discount: Factor from one turn to the next: of the value of step rewards and of the
            environment's, and of what `discounted` records.
        normalisation: What becomes of its value before the combination that is trained on.
        takes: What its function is called with; read from the function.
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
    retries: int = 0
    batch_size: int | None = None
    batch_tokens: int | None = None
    process: str | None = None
    reward_key: str | None = None
    distribution: Distribution | None = None
    discount: float = 1.0
    normalisation: Normalising = UNCHANGED
    takes: Takes = field(init=False, default=Takes.EPISODE)

    def __post_init__(self) -> None:
        if (self.function is None) != (self.kind is ComponentKind.ENVIRONMENT):
            raise ValueError(
                f"reward component {self.name!r} of kind {self.kind}: a function is "
                "needed, except for the environment's own rewards"
            )
        numbers = (self.weight, self.verifier_penalty, self.value, self.discount)
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"reward component {self.name!r}: its numbers must be finite")
        object.__setattr__(self, "takes", self._taken())

    def _taken(self) -> Takes:
        if self.kind is ComponentKind.STEP:
            return Takes.TURN
        return Takes.EPISODE if self.function is None else takes_of(self.function)


@dataclass(frozen=True, slots=True)
class Scored:
    """What scoring one episode gives.

    Attributes:
        total: The combined raw reward; None where a component was dropped, where none applies, and
            where the episode failed or was aborted.
        components: The raw value of each component that has one, before its weight.
        error: The first failure of a component, also where `value` replaced it; for an episode
            that is not scored, the episode's own.
        dropped: Whether a component's failure left the episode without a total.
        scoring: What else there is to record; None where that is nothing.
    """

    total: float | None
    components: Mapping[str, float] = field(default_factory=dict)
    error: EpisodeError | None = None
    dropped: bool = False
    scoring: Scoring | None = None
