"""Why a service gave no score, by kind."""

from __future__ import annotations

from enum import StrEnum

from retrain.errors import RewardFailure


class FaultKind(StrEnum):
    """What went wrong; each kind is counted on its own."""

    CONNECTION = "connection"
    TIMEOUT = "timeout"
    LIMITED = "limited"
    STATUS = "status"
    REPLY = "reply"
    TOO_LARGE = "too_large"
    UNSENDABLE = "unsendable"
    BREAKER = "breaker"
    NO_SCORE = "no_score"
    BUDGET = "budget"
    CLOSED = "closed"


class ServiceFailure(RewardFailure):
    """A service was not asked, did not answer, or answered something that is no score.

    Attributes:
        kind: What went wrong.
        passing: Whether the same request may succeed later.
        unwell: Whether it says that the service itself does not work, so that others would fail
            alike.
        retry_after: Seconds after which the service asks to be asked again.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: FaultKind = FaultKind.REPLY,
        passing: bool = False,
        unwell: bool = False,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.passing = passing
        self.unwell = unwell
        self.retry_after = retry_after
