"""`Flow`: how much a server says between two of its answers."""

from __future__ import annotations

from retrain.errors import ToolFailure

MOST_BYTES = 64 * 2**20
MOST_MESSAGES = 10_000
"""Bounds of what a server says, on every channel together, from one answer to the next."""


class Flooded(ToolFailure):
    """A server says more than anybody reads."""


class Flow:
    """Counts what a server says since its last answer.

    Args:
        most_bytes: Most bytes between two answers.
        most_messages: Most messages between two answers.

    Attributes:
        why: How much was too much; None as long as nothing was.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_messages: int = MOST_MESSAGES) -> None:
        self._most_bytes = most_bytes
        self._most_messages = most_messages
        self._bytes = self._messages = 0
        self.why: str | None = None

    def heard(self, count: int) -> None:
        """Count bytes.

        Raises:
            Flooded: They are too many.
        """
        self._bytes += count
        if self._bytes > self._most_bytes:
            raise self._flooded(f"{self._most_bytes / 2**20:g} MiB")

    def message(self) -> None:
        """Count a message that is no answer.

        Raises:
            Flooded: They are too many.
        """
        self._messages += 1
        if self._messages > self._most_messages:
            raise self._flooded(f"{self._most_messages} messages")

    def answered(self) -> None:
        """Begin to count anew."""
        self._bytes = self._messages = 0

    def _flooded(self, much: str) -> Flooded:
        self.why = f"it was ended, since it said more than {much} without an answer"
        return Flooded(self.why)
