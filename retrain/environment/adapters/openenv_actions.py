"""What the model wrote as actions of an OpenEnv server, by the schema of its actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from retrain.environment.adapters.openenv_session import ActionRefused, Answer
from retrain.environment.base import ToolSchema
from retrain.errors import ConfigError, EnvironmentFailure, nearest
from retrain.types import Action, ToolCall

_KEY = "environment.env_specific_config.action"
_ACT = "act"

Sent = tuple[ToolCall | None, Mapping[str, Any]]
"""A call that the model wrote, or None where the turn is the action, and what is sent for it."""


class Steps(Protocol):
    """Something that takes actions."""

    async def step(self, action: Mapping[str, Any]) -> Answer:
        """Take an action."""
        ...


@dataclass(frozen=True, slots=True)
class ServerActions:
    """How actions of one server are written.

    Attributes:
        tools: What the model may call; none where it writes text.
        field: The field that holds its text; "" where there are tools.
        named: Whether the tools are the environment's own, and not the one tool `act`.
    """

    tools: Sequence[ToolSchema] = ()
    field: str = ""
    named: bool = False

    def read(self, action: Action) -> Sequence[Sent] | str:
        """What to send for an action, or what to tell the model of one that cannot be read."""
        if self.field:
            return [(None, {self.field: action.text})]
        if action.parse_error is not None:
            return f"Error: the tool call could not be read: {action.parse_error}"
        if not action.tool_calls:
            return "Error: the turn was cut before a tool call."
        return [(call, self._data(call)) for call in action.tool_calls]

    def _data(self, call: ToolCall) -> Mapping[str, Any]:
        if not self.named:
            return dict(call.arguments)
        return {"type": "call_tool", "tool_name": call.name, "arguments": dict(call.arguments)}


async def actions_for(schema: Mapping[str, Any], field: str | None, steps: Steps) -> ServerActions:
    """Find out how actions are written.

    Args:
        schema: The JSON schema of an action.
        field: Which field holds the model's text; None finds out.
        steps: The session, which is asked for tools where its actions are calls of tools.

    Raises:
        ConfigError: There is no such field.
        EnvironmentFailure: The environment offers no tools.
    """
    fields = {n: f for n, f in schema.get("properties", {}).items() if n != "metadata"}
    if field is not None:
        if field not in fields:
            raise ConfigError(f"{_KEY}: an action has no {field!r}; {nearest(field, fields)}")
        return ServerActions(field=field)
    if not fields or {"tool_name", "arguments"} <= fields.keys():
        return ServerActions(await _tools(steps), named=True)
    required = [name for name in schema.get("required", ()) if name in fields]
    texts = [name for name in required if fields[name].get("type") == "string"]
    if len(required) == len(texts) == 1:
        return ServerActions(field=texts[0])
    return ServerActions((_act(schema, fields),))


async def _tools(steps: Steps) -> tuple[ToolSchema, ...]:
    try:
        answer = await steps.step({"type": "list_tools"})
    except ActionRefused as error:
        raise ConfigError(
            f"{_KEY}: the server offers neither tools nor an action with a text field: {error}"
        ) from error
    offered = answer.observation.get("tools", ())
    if not offered:
        why = answer.observation.get("metadata", {}).get("error", "it lists none")
        raise EnvironmentFailure(f"server: the environment offers no tools: {why}")
    return tuple(
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool.get("input_schema") or {"type": "object", "properties": {}},
            },
        }
        for tool in offered
    )


def _act(schema: Mapping[str, Any], fields: Mapping[str, Any]) -> ToolSchema:
    """A tool whose arguments are the fields of an action."""
    required = [name for name in schema.get("required", ()) if name in fields]
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        "type": "function",
        "function": {
            "name": _ACT,
            "description": schema.get("description", "Take an action."),
            "parameters": {
                "type": "object",
                "properties": dict(fields),
                "required": required,
                **definitions,
            },
        },
    }
