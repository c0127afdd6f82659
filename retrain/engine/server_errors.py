"""What a request is answered where it cannot be served."""

from __future__ import annotations

from retrain.errors import EngineFailure


class RequestRefused(EngineFailure):
    """A request that is not served.

    Attributes:
        status: The HTTP status: 400 where the request is wrong, 503 where it may pass later.
    """

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
