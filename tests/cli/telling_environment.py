"""An MCP environment that asks its server for its secret, whatever the model writes."""

from __future__ import annotations

from dataclasses import replace

from retrain.environment.mcp.environment import MCPEnvironment
from retrain.types import Action, Message, Observation, StepResult, ToolCall

DEEDS = ("secret", "broken secret", "die of secret")


class Tells(MCPEnvironment):
    async def step(self, action: Action) -> StepResult:
        self.told = getattr(self, "told", -1) + 1
        last = len(DEEDS) - self.seed % 2
        if self.told == last:
            return StepResult(Observation(), terminated=True)
        deed = ToolCall("do", {"what": DEEDS[self.told]})
        result = await super().step(replace(action, tool_calls=(deed,), parse_error=None))
        said = "\n".join(message.content for message in result.observation.messages)
        told = Observation((Message("user", said),))
        return result._replace(observation=told, info={"said": said})
