"""Messages in the form that chat templates read: dictionaries in OpenAI's layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrain.errors import RenderingFailure
from retrain.images import PLACEHOLDER
from retrain.types import Message, ToolCall

MessageDict = dict[str, Any]


def conversation(messages: Sequence[Message]) -> list[MessageDict]:
    """Turn messages into what a chat template reads.

    Calls without an id get one per position in their message (nine letters and digits, which is
    what Mistral's templates ask for), and a tool message gets the id and the name of the call that
    it answers: the one it names, else the one at its position.

    Args:
        messages: The conversation from its beginning.

    Raises:
        RenderingFailure: A tool message answers no call, or a content is no text.
    """
    dicts: list[MessageDict] = []
    calls: tuple[ToolCall, ...] = ()
    answered = 0
    for message in messages:
        require_text(message)
        if message.role == "tool":
            dicts.append(_tool_dict(message, calls, answered))
            answered += 1
            continue
        if message.role == "assistant":
            calls, answered = _with_ids(message.tool_calls), 0
        dicts.append(_plain_dict(message, calls))
    return dicts


def require_text(message: Message) -> None:
    """Check that a message's content is text, as environments sometimes send something else.

    Raises:
        RenderingFailure: It is not.
    """
    if not isinstance(message.content, str):
        raise RenderingFailure(
            f"the content of a {message.role} message must be text, not "
            f"{type(message.content).__name__}; turn it into text first"
        )


def _with_ids(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(call.name, call.arguments, call.id or f"call{position:05d}")
        for position, call in enumerate(calls)
    )


def _content(message: Message) -> str | list[MessageDict]:
    """Text; for a message with images the parts that the template shows, in their order."""
    if not message.images:
        return message.content
    texts = message.content.split(PLACEHOLDER)
    if len(texts) == 1:
        return [*({"type": "image"} for _ in message.images), *_text_part(texts[0])]
    if len(texts) - 1 != len(message.images):
        raise RenderingFailure(
            f"a {message.role} message has {len(message.images)} images and says {PLACEHOLDER} "
            f"{len(texts) - 1} times; say it once for each image, or never"
        )
    parts = _text_part(texts[0])
    for text in texts[1:]:
        parts += [{"type": "image"}, *_text_part(text)]
    return parts


def _text_part(text: str) -> list[MessageDict]:
    return [{"type": "text", "text": text}] if text else []


def texts_of(message: MessageDict) -> list[str]:
    """The texts of a message in the template's form: one, or one between each two images."""
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if part["type"] == "text"]


def _plain_dict(message: Message, calls: Sequence[ToolCall]) -> MessageDict:
    result: MessageDict = {"role": message.role, "content": _content(message)}
    if message.name is not None:
        result["name"] = message.name
    if message.role == "assistant" and message.reasoning:
        result["reasoning_content"] = message.reasoning
    if message.role == "assistant" and calls:
        result["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for call in calls
        ]
    return result


def _tool_dict(message: Message, calls: Sequence[ToolCall], position: int) -> MessageDict:
    named = [call for call in calls if call.id == message.tool_call_id]
    if not named and position >= len(calls):
        raise RenderingFailure(
            f"tool message number {position + 1} answers no call: the assistant message before it "
            f"holds {len(calls)}; answer with a user message instead"
        )
    call = named[0] if named else calls[position]
    return {
        "role": "tool",
        "content": _content(message),
        "tool_call_id": call.id,
        "name": message.name or call.name,
    }
