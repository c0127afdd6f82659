"""What a loop of somebody else's says next, as an observation: what is new, or another history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from retrain.environment.messages import as_message
from retrain.environment.tool_text import join_blocks
from retrain.errors import EnvironmentFailure
from retrain.types import Action, Message, Observation, ToolCall

_FIELDS = ("content", "reasoning_content", "tool_calls", "tool_call_id", "name")


class Retold:
    """Compares each conversation that is sent with what was said before."""

    def __init__(self) -> None:
        self._said: list[Message] = []
        self._ids: dict[str, ToolCall] = {}

    def observe(self, sent: Sequence[Mapping[str, Any]]) -> Observation:
        """The first prompt; later what is new, or all of it where the rest is not what was said.

        Raises:
            EnvironmentFailure: A message cannot be read.
        """
        messages = [self._read(row) for row in sent]
        known, self._said = self._said, messages
        if not known:
            return Observation(tuple(messages))
        new = messages[len(known) :]
        told = list(map(_identity, messages[: len(known)])) == list(map(_identity, known))
        if told and new and all(message.role != "assistant" for message in new):
            return Observation(tuple(new))
        return Observation(tuple(messages), rewrite=True)

    def answer(self, action: Action) -> dict[str, Any]:
        """The action as the assistant message that the loop is given."""
        number = len(self._said)
        calls = []
        for place, call in enumerate(action.tool_calls):
            name = call.id or f"call_{number}_{place}"
            self._ids[name] = call
            body = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
            calls.append({"id": name, "type": "function", "function": body})
        self._said.append(action.message)
        message: dict[str, Any] = {"role": "assistant", "content": action.text or None}
        if action.reasoning:
            message["reasoning_content"] = action.reasoning
        if calls:
            message["tool_calls"] = calls
        return message

    def _read(self, row: Mapping[str, Any]) -> Message:
        given = {name: row[name] for name in _FIELDS if row.get(name) is not None}
        if "content" in given:
            text = join_blocks(given["content"])
            if text is None:
                raise EnvironmentFailure(f"a message is no text: {given['content']!s:.80}")
            given["content"] = text
        role = "system" if row.get("role") == "developer" else row.get("role")
        try:
            message = as_message({"role": role, **given})
        except ValueError as error:
            raise EnvironmentFailure(f"a message cannot be read: {error}") from error
        call = self._ids.get(message.tool_call_id or "")
        if call is None:
            return message
        return replace(message, tool_call_id=call.id, name=call.name)


def _identity(message: Message) -> tuple[Any, ...]:
    """What makes two messages the same: their reasoning may be left out when they are retold."""
    calls = [(call.name, dict(call.arguments)) for call in message.tool_calls]
    return message.role, message.content.strip(), calls, message.tool_call_id
