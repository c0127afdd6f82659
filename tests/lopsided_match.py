"""A match in which one agent is treated well, one cannot be silent, and one never acts."""

from __future__ import annotations

from nim_match import FIRST, SECOND, Nim

from retrain.environment.several_agents import Outcome
from retrain.types import Action


class Lopsided(Nim):
    """Nim that breaks where the second agent says nothing; the third one never acts."""

    agents = (FIRST, SECOND, "third")

    async def step(self, agent: str, action: Action) -> Outcome:
        said = action.text.strip() or action.tool_calls or action.parse_error
        if agent == SECOND and not said:
            raise ValueError("the second says nothing")
        return await super().step(agent, action)
