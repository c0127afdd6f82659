"""Messages as the chat dictionaries that other libraries take, and what they give back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrain.types import Action, Message


def as_chat(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """New dictionaries with "role" and "content", and what else a message has."""
    return [_as_dictionary(message) for message in messages]


def raw_text(action: Action) -> str:
    """The action as one text, its reasoning in `<think>` tags before the answer."""
    if not action.reasoning:
        return action.text
    return f"<think>\n{action.reasoning}\n</think>\n\n{action.text}"


def _as_dictionary(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        said["reasoning_content"] = message.reasoning
    if message.tool_calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        said["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        said["name"] = message.name
    return said
