"""Normalisation of rewards before they are combined and trained on; raw values are kept beside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from retrain.errors import DataError

EPSILON = 1e-6
"""Added to a standard deviation before it divides; as in the advantages."""


class Normalisation(StrEnum):
    """How a value is put on another scale."""

    NONE = "none"
    CLIP = "clip"
    RUNNING = "running"
    GROUP = "group"
    RANK = "rank"


@dataclass(frozen=True, slots=True)
class Normalising:
    """A normalisation and the bounds of its result.

    Attributes:
        how: The normalisation.
        clip: Least and largest value afterwards; None bounds nothing.
    """

    how: Normalisation = Normalisation.NONE
    clip: tuple[float, float] | None = None

    @property
    def changes(self) -> bool:
        """Whether it does anything."""
        return self.how is not Normalisation.NONE or self.clip is not None

    def apply(self, values: Sequence[float], moments: Moments) -> list[float]:
        """Normalise the values of one group.

        Args:
            values: The values of its valid episodes.
            moments: What has been seen so far, for `running`.
        """
        found = list(values)
        if self.how is Normalisation.RUNNING:
            found = [(value - moments.mean) / (moments.std + EPSILON) for value in values]
        elif self.how is Normalisation.GROUP:
            found = standardised(values)
        elif self.how is Normalisation.RANK:
            found = centred_ranks(values)
        if self.clip is None:
            return found
        low, high = self.clip
        return [min(max(value, low), high) for value in found]


UNCHANGED = Normalising()
"""Leaves values as they are."""


@dataclass(slots=True)
class Moments:
    """Count, mean and sum of squared deviations of the values seen so far, in float64.

    Source: Welford 1962, "Note on a method for calculating corrected sums of squares and products".
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @property
    def std(self) -> float:
        """The sample standard deviation (ddof 1); 1 while fewer than two values are known."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 1.0

    def add(self, value: float) -> None:
        """Take one more value in."""
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    def state_dict(self) -> dict[str, Any]:
        """The moments as JSON values; floats survive JSON bit by bit."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    @classmethod
    def of_state(cls, state: Any, name: str) -> Moments:
        """Read what `state_dict` gave.

        Raises:
            DataError: It is damaged.
        """
        try:
            found = cls(int(state["count"]), float(state["mean"]), float(state["squares"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"reward state of {name!r}: is damaged ({error!r})") from error
        if found.count < 0 or not (math.isfinite(found.mean) and found.squares >= 0):
            raise DataError(f"reward state of {name!r}: is damaged ({dict(state)})")
        return found


def standardised(values: Sequence[float]) -> list[float]:
    """(value - mean) / (std + 1e-6) within a group, with the sample standard deviation.

    Values that are all the same, and one alone, give 0.
    """
    if len(values) < 2 or min(values) == max(values):
        return [0.0] * len(values)
    mean = math.fsum(value / len(values) for value in values)
    deviations = [value - mean for value in values]
    std = math.hypot(*deviations) / math.sqrt(len(values) - 1)
    return [deviation / (std + EPSILON) for deviation in deviations]


def centred_ranks(values: Sequence[float]) -> list[float]:
    """Ranks within a group, from -0.5 for the least to 0.5 for the largest; equal ones share one.

    One alone gives 0. Source: the rank transformation of Salimans et al. 2017, "Evolution
    Strategies as a Scalable Alternative to Reinforcement Learning" (arXiv:1703.03864), section 2.
    """
    if len(values) < 2:
        return [0.0] * len(values)
    ordered = sorted(values)
    below = {value: place for place, value in reversed(list(enumerate(ordered)))}
    upto = {value: place for place, value in enumerate(ordered)}
    return [(below[v] + upto[v]) / 2 / (len(values) - 1) - 0.5 for v in values]


def read_moments(state: Mapping[str, Any]) -> dict[str, Moments]:
    """Read the moments of several components.

    Raises:
        DataError: They are damaged.
    """
    return {name: Moments.of_state(value, name) for name, value in state.items()}
