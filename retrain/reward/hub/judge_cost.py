"""What a language model behind an endpoint costs, and when it has cost enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard

from retrain.errors import ConfigError
from retrain.reward.hub.service_faults import FaultKind, ServiceFailure
from retrain.reward.hub.service_tally import Tally

_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Costs:
    """Prices and limits.

    Attributes:
        price_in: Price of a million prompt tokens, in any currency; None where it is not known.
        price_out: Price of a million tokens that the model writes.
        budget: Most that the model may cost, in that currency; None for no limit.
        budget_tokens: Most tokens, both ways together; None for no limit.
        whose: Who pays, for messages.
    """

    price_in: float | None = None
    price_out: float | None = None
    budget: float | None = None
    budget_tokens: int | None = None
    whose: str = "llm_judge"

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be.

        Raises:
            ConfigError: One is negative, or a budget stands without prices.
        """
        for name in ("price_in", "price_out", "budget", "budget_tokens"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ConfigError(f"{self.whose}: {name} is {value}, expected at least 0")
        if self.budget is not None and None in (self.price_in, self.price_out):
            raise ConfigError(f"{self.whose}: budget: needs price_in and price_out")

    def check(self, tally: Tally) -> None:
        """Refuse a request once enough was spent.

        Raises:
            ServiceFailure: The budget is spent.
        """
        spent, tokens = tally.total("cost"), tally.total("tokens_in") + tally.total("tokens_out")
        if self.budget is not None and spent >= self.budget:
            reason = f"the budget of {self.budget:g} is spent ({spent:.4f})"
        elif self.budget_tokens is not None and tokens >= self.budget_tokens:
            reason = f"the budget of {self.budget_tokens:,} tokens is spent ({int(tokens):,})"
        else:
            return
        raise ServiceFailure(f"{self.whose}: not asked: {reason}", kind=FaultKind.BUDGET)

    def count(self, usage: Any, tally: Tally) -> None:
        """Count what a reply cost.

        Args:
            usage: Its `usage`: `prompt_tokens` and `completion_tokens`.
            tally: Where it is counted.

        Raises:
            ServiceFailure: The reply does not say what it cost, and there is a budget.
        """
        given = usage if isinstance(usage, dict) else {}
        read, written = given.get("prompt_tokens"), given.get("completion_tokens")
        if not (_is_count(read) and _is_count(written)):
            if self.budget is not None or self.budget_tokens is not None:
                raise ServiceFailure(
                    f"{self.whose}: the reply has no usage.prompt_tokens and completion_tokens, so "
                    "no budget can be kept; remove the budget, or use a server that counts"
                )
            return
        tally.add("tokens_in", read)
        tally.add("tokens_out", written)
        if self.price_in is not None or self.price_out is not None:
            cost = read * (self.price_in or 0.0) + written * (self.price_out or 0.0)
            tally.add("cost", cost / _MILLION)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
