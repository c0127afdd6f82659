"""How the components of a reward become one number."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from retrain.errors import ConfigError, RewardFailure
from retrain.registry import Registry
from retrain.reward.values import finite_number

Combine: TypeAlias = Callable[[Mapping[str, float], Mapping[str, float]], Any]
"""`(values, weights) -> float`: by component, those left out that have no value."""

COMBINATIONS: Registry[Combine] = Registry("combination", "retrain.combinations")


@COMBINATIONS.register("sum")
def weighted_sum(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The sum of weight times value."""
    return sum(weights[name] * value for name, value in values.items())


@COMBINATIONS.register("mean")
def weighted_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted sum over the sum of the weights' sizes, of the components that have a value."""
    whole = math.fsum(abs(weights[name]) for name in values)
    if not whole:
        raise RewardFailure(f"the weights of {', '.join(values)} are 0, so there is no mean")
    return weighted_sum(values, weights) / whole


@COMBINATIONS.register("min")
def least(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The least of weight times value."""
    return min(weights[name] * value for name, value in values.items())


@COMBINATIONS.register("product")
def product(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The product of weight times value."""
    return math.prod(weights[name] * value for name, value in values.items())


@dataclass(frozen=True, slots=True)
class Combination:
    """A combination and its weights.

    Attributes:
        combine: The function.
        weights: By component.
        rescale: Whether a sum is brought to the scale that it has with all components, where some
            have no value: times the sizes of all weights over those of the present ones.
    """

    combine: Combine = weighted_sum
    weights: Mapping[str, float] = field(default_factory=dict)
    rescale: bool = False

    def __call__(self, values: Mapping[str, float]) -> float:
        """The combined reward of an episode.

        Args:
            values: By component, at least one.

        Raises:
            RewardFailure: The function raised, or gives no finite number.
        """
        what = f"the combined reward of {dict(values)}"
        try:
            total = self.combine(values, self.weights)
        except (RewardFailure, ConfigError):
            raise
        except Exception as error:
            raise RewardFailure(f"{what}: {type(error).__name__}: {error}") from error
        return finite_number(finite_number(total, what) * self._scale(values), what)

    def _scale(self, values: Mapping[str, float]) -> float:
        if not self.rescale or len(values) == len(self.weights):
            return 1.0
        present = math.fsum(abs(self.weights[name]) for name in values)
        return math.fsum(map(abs, self.weights.values())) / present if present else 1.0


def load_combination(name: str, key: str) -> Combine:
    """The combination of a name or an import path.

    Args:
        name: sum, mean, min, product, or package.module:function.
        key: Where it stands in the configuration.

    Raises:
        ConfigError: There is none, or it takes something else than (values, weights).
    """
    try:
        combine = COMBINATIONS.get(name)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    try:
        inspect.signature(combine).bind({}, {})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{key}: {name!r} must take (values, weights): {error}") from None
    return combine
