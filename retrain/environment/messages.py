"""Reads chat messages as people write them in Python: `Message`, or OpenAI-style dictionaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from retrain.errors import nearest
from retrain.images import PLACEHOLDER, Image, read_images
from retrain.types import Message, ToolCall

ROLES = ("system", "user", "assistant", "tool")

_FIELDS = (
    "role",
    "content",
    "reasoning",
    "reasoning_content",
    "tool_calls",
    "tool_call_id",
    "name",
    "images",
)


def as_message(value: Any) -> Message:
    """Read one message.

    Args:
        value: A `Message`, or a dictionary with "role" and "content", and where needed
            "reasoning" (or "reasoning_content"), "tool_calls", "tool_call_id", "name" and "images".
            The content is text, or a list of parts of type "text", "image" and "image_url".

    Raises:
        ValueError: Saying what is wrong with it.
    """
    if isinstance(value, Message):
        return _checked(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a Message or a chat dictionary, got {type(value).__name__}")
    for key, content in value.items():
        if key not in _FIELDS and content is not None:
            raise ValueError(f"a message has no {key!r}; {nearest(str(key), _FIELDS)}")
    if "role" not in value:
        raise ValueError(f"a message needs a 'role', one of {', '.join(ROLES)}")
    content, shown = read_parts(_text(value.get("content")))
    return _checked(
        Message(
            role=value["role"],
            content=content,
            reasoning=_text(value.get("reasoning") or value.get("reasoning_content")),
            tool_calls=_as_tool_calls(value.get("tool_calls") or ()),
            tool_call_id=value.get("tool_call_id"),
            name=value.get("name"),
            images=(*read_images(value.get("images")), *shown),
        )
    )


def _checked(message: Message) -> Message:
    if message.role not in ROLES:
        raise ValueError(f"the role {message.role!r} is none of {', '.join(ROLES)}")
    if not isinstance(message.content, str):
        raise ValueError(f"content must be text, got {type(message.content).__name__}")
    if not isinstance(message.reasoning, str):
        raise ValueError(f"reasoning must be text, got {type(message.reasoning).__name__}")
    return message


def read_parts(content: Any) -> tuple[Any, tuple[Image, ...]]:
    """Read a content that is a list of parts.

    Args:
        content: A list of mappings with "type": "text", "image" or "image_url"; anything else is
            given back as it is.

    Returns:
        The text, and the images. Where an image stands behind some text, each is marked by
        `PLACEHOLDER`.

    Raises:
        ValueError: A part is of another type, or its image is none.
    """
    if not isinstance(content, list) or not all(isinstance(part, Mapping) for part in content):
        return content, ()
    pieces: list[str] = []
    images: list[Image] = []
    for part in content:
        if part.get("type") == "text":
            pieces.append(str(part.get("text", "")))
        elif part.get("type") in ("image", "image_url"):
            images.append(Image.of(part))
            pieces.append(PLACEHOLDER)
        else:
            kind = part.get("type")
            raise ValueError(f"a content part is of type text, image or image_url, not {kind!r}")
    marked = "".join(pieces)
    if marked.count(PLACEHOLDER) > len(images) and images:
        raise ValueError(
            f"a text says {PLACEHOLDER} beside images that stand in parts of their own"
        )
    in_front = PLACEHOLDER * len(images)
    return (marked.removeprefix(in_front) if marked.startswith(in_front) else marked), tuple(images)


def _text(value: Any) -> Any:
    return "" if value is None else value


def _as_tool_calls(value: Any) -> tuple[ToolCall, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"tool_calls must be a list, got {type(value).__name__}")
    return tuple(item if isinstance(item, ToolCall) else _as_tool_call(item) for item in value)


def _as_tool_call(value: Any) -> ToolCall:
    body = value.get("function", value) if isinstance(value, Mapping) else None
    if not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
        raise ValueError("a tool call is {'id', 'type', 'function': {'name', 'arguments'}}")
    if "arguments" not in body:
        raise ValueError(f"the call of {body['name']} has no 'arguments'")
    arguments = body["arguments"] or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except json.JSONDecodeError as error:
            raise ValueError(f"the arguments of {body['name']} are no JSON: {error}") from error
    if not isinstance(arguments, Mapping):
        raise ValueError(f"the arguments of {body['name']} must be an object")
    return ToolCall(body["name"], dict(arguments), value.get("id"))
