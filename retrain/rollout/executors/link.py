"""A connection to one worker, whatever kind of process holds it."""

from __future__ import annotations

from typing import Protocol


class Link(Protocol):
    """Carries messages to one worker and their answers back."""

    @property
    def name(self) -> str:
        """The worker, for messages ("process 4711", "node 10.0.0.2, process 4711")."""
        ...

    async def exchange(self, number: int, message: bytes) -> bytes:
        """Send a message and wait for its answer.

        Raises:
            WorkerLost: The worker ended before it answered; why, where it is known.
        """
        ...

    async def ended(self) -> str:
        """Wait for the worker's end and say how it came about."""
        ...

    def dismiss(self) -> None:
        """Ask the worker to end by itself; does not wait for it."""
        ...

    def kill(self, *, patience: float = 0.0) -> None:
        """End the worker, also one that has ended; blocks until it is gone.

        Args:
            patience: Seconds that it may take to end by itself.
        """
        ...


class Launcher(Protocol):
    """Starts workers."""

    async def open(self) -> int:
        """Get ready to start workers.

        Returns:
            How many workers there is room for.

        Raises:
            RetrainError: There can be no worker here.
        """
        ...

    async def launch(self) -> Link:
        """Start one worker; it may not be running yet when this returns.

        Raises:
            WorkerLost: It ended at once.
        """
        ...

    def lacking(self) -> str:
        """What may keep workers from starting, for a message; "" where nothing is known."""
        ...

    def close(self) -> None:
        """Give back what `open` took; from any thread, and more than once."""
        ...
