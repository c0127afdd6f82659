"""What an engine asks of one of its servers where weights and memory are concerned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from retrain.errors import EngineFailure

LOAD_SECONDS = 3600.0
"""Seconds that a server may take to load weights, or to take its memory again."""


class WeightCalls(Protocol):
    """What is asked of one server; its URL stands first. Each raises `EngineFailure`."""

    async def served(self, url: str) -> str | None:
        """The version that the server names; None where it names none."""
        ...

    async def wake(self, url: str) -> None:
        """Have a server take memory that a killed run left released, if it can be asked for."""
        ...

    async def pause(self, url: str) -> None:
        """End the requests that run, with what they have written; later ones wait."""
        ...

    async def go_on(self, url: str) -> None:
        """Let requests pass again."""
        ...

    async def load(self, url: str, path: str, version: str) -> None:
        """Load weights, and drop the keys and values that older ones computed."""
        ...

    async def release(self, url: str) -> None:
        """Give the memory of weights, keys and values back; the server is paused.

        Raises:
            ConfigError: The server was not started so that it can.
        """
        ...

    async def take_weights(self, url: str) -> None:
        """Take the memory of the weights again; what stands in it is worth nothing."""
        ...

    async def take_cache(self, url: str) -> None:
        """Take the memory of keys and values again."""
        ...

    async def answers(self, url: str) -> Sequence[float]:
        """Logprobs of the likeliest token after each of `weight_probe.PROMPTS`."""
        ...


def require_success(reply: object, what: str) -> None:
    """Refuse an answer that says of itself that nothing was done.

    Raises:
        EngineFailure: It does.
    """
    if isinstance(reply, dict) and reply.get("success") is False:
        raise EngineFailure(f"{what}: {reply.get('message') or 'the server says that it failed'}")
