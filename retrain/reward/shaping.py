"""From the raw values of a group to the rewards that its advantages are computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from retrain.errors import RewardFailure
from retrain.reward.combination import Combination
from retrain.reward.normalisation import UNCHANGED, Moments, Normalisation, Normalising
from retrain.reward.values import finite_number

TOTAL = "(combined)"
"""What the moments of the combined reward are called; no component has such a name."""

Values = Mapping[str, float]
"""Raw values by component."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """What one episode is trained on.

    Attributes:
        trained: The combined reward after all normalisation; None where it cannot be computed.
        normalised: By component, those that are normalised.
        failure: Why it cannot be computed.
    """

    trained: float | None
    normalised: Mapping[str, float] = field(default_factory=dict)
    failure: RewardFailure | None = None


@dataclass(frozen=True, slots=True)
class Shaping:
    """Normalises each component, combines them, and normalises that.

    Attributes:
        components: The normalisation of each component.
        combination: Makes one number of an episode's values.
        total: The normalisation of that number.
    """

    components: Mapping[str, Normalising]
    combination: Combination
    total: Normalising = UNCHANGED

    @property
    def changes(self) -> bool:
        """Whether what is trained on can be another number than the raw reward."""
        return self.total.changes or any(how.changes for how in self.components.values())

    @property
    def running(self) -> tuple[str, ...]:
        """What moments are kept of: components, and the total."""
        every = {**self.components, TOTAL: self.total}
        return tuple(name for name, how in every.items() if how.how is Normalisation.RUNNING)

    def learn(self, groups: Sequence[Sequence[Values]], moments: dict[str, Moments]) -> None:
        """Take the values of a batch into the moments: of components first, then of the total.

        Args:
            groups: The valid episodes' values, in an order that a repetition would have too.
            moments: Changed in place.
        """
        for name in self.running:
            kept = moments.setdefault(name, Moments())
            if name != TOTAL:
                for group in groups:
                    for values in group:
                        if name in values:
                            kept.add(values[name])
        if TOTAL in self.running:
            combined = [self._combined(group, moments) for group in groups]
            for shaped in (shaped for group in combined for shaped in group):
                if shaped.trained is not None:
                    moments[TOTAL].add(shaped.trained)

    def group(self, rows: Sequence[Values], moments: Mapping[str, Moments]) -> list[Shaped]:
        """Shape the valid episodes of one group.

        Args:
            rows: Their raw values, each with at least one.
            moments: What has been seen, for `running`; what is missing has seen nothing.
        """
        combined = self._combined(rows, moments)
        known = [shaped.trained for shaped in combined if shaped.trained is not None]
        totals = iter(self.total.apply(known, moments.get(TOTAL, Moments())))
        return [
            shaped if shaped.trained is None else _finite(next(totals), shaped.normalised)
            for shaped in combined
        ]

    def _combined(self, rows: Sequence[Values], moments: Mapping[str, Moments]) -> list[Shaped]:
        normalised: list[dict[str, float]] = [{} for _ in rows]
        for name, how in self.components.items():
            if not how.changes:
                continue
            having = [n for n, row in enumerate(rows) if name in row]
            found = how.apply([rows[n][name] for n in having], moments.get(name, Moments()))
            for n, value in zip(having, found, strict=True):
                normalised[n][name] = value
        return [self._one(row, own) for row, own in zip(rows, normalised, strict=True)]

    def _one(self, row: Values, normalised: Values) -> Shaped:
        try:
            return Shaped(self.combination({**row, **normalised}), normalised)
        except RewardFailure as failure:
            return Shaped(None, normalised, failure)


def _finite(total: float, normalised: Values) -> Shaped:
    """What is trained on; nothing where the values are too large for their deviations."""
    try:
        return Shaped(finite_number(total, "the normalisation"), normalised)
    except RewardFailure as failure:
        return Shaped(None, normalised, failure)
