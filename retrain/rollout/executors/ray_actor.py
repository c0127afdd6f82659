"""The worker's side in a Ray actor."""

from __future__ import annotations

import asyncio

from retrain.rollout.executors.host import EnvironmentHost


class HostActor:
    """An asynchronous actor around an `EnvironmentHost`; Ray loads it by its import path."""

    def __init__(self) -> None:
        self._host = EnvironmentHost()

    async def serve(self, number: int, message: bytes) -> bytes:
        """Answer one message; see `EnvironmentHost.serve`."""
        return await self._host.serve(number, message)

    async def stay(self) -> None:
        """Never return: whoever waits for this learns when the actor ends."""
        await asyncio.Event().wait()
