"""`Exchange`: what the seats of a match are told and what they do, passed to and fro."""

from __future__ import annotations

import asyncio
from typing import Any

from retrain.types import Action, StepResult


class Exchange:
    """A mailbox for each seat: the match tells it something, and it acts or leaves."""

    def __init__(self) -> None:
        """Open it; nobody is told anything yet."""
        self._told: dict[str, asyncio.Future[StepResult | None]] = {}
        self._asked: dict[str, asyncio.Future[Action | None]] = {}

    def ask(self, agent: str, told: StepResult) -> asyncio.Future[Action | None]:
        """Tell a seat something, and ask what it does.

        Returns:
            What it does; None where it leaves.
        """
        asked = self._asked[agent] = _future()
        self._told.setdefault(agent, _future()).set_result(told)
        return asked

    def answer(self, agent: str, action: Action | None) -> None:
        """Say what a seat does; nothing where it is not asked."""
        asked = self._asked.get(agent)
        if asked is not None and not asked.done():
            asked.set_result(action)

    async def told(self, agent: str) -> StepResult | None:
        """Wait for what a seat is told next; None where the match ends first."""
        told = self._told.setdefault(agent, _future())
        await asyncio.wait([told])
        self._told.pop(agent, None)
        return told.result()

    async def end(self, agent: str) -> None:
        """Wait for the end of the match, for a seat that acts no more."""
        await asyncio.wait([self._told.setdefault(agent, _future())])

    def wake(self) -> None:
        """Let every seat that waits see that the match is over."""
        for told in self._told.values():
            if not told.done():
                told.set_result(None)


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()
