"""Chat messages as the OpenAI and Hugging Face formats write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from retrain.errors import DataError
from retrain.types import Message, ToolCall


@dataclass(frozen=True, slots=True)
class _ToolFunction:
    name: str
    arguments: dict[str, Any] | str


_FUNCTION = TypeAdapter(_ToolFunction)


def read_messages(where: str, rows: Any) -> tuple[Message, ...]:
    """Read chat messages as the OpenAI and Hugging Face formats write them.

    Raises:
        DataError: Naming `where` and the message that cannot be used.
    """
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise DataError(f"{where}: expected text or a list of messages, got {rows!r:.80}")
    return tuple(_message(f"{where}[{number}]", row) for number, row in enumerate(rows))


def _message(where: str, row: Any) -> Message:
    known = {"system", "user", "assistant", "tool"}
    if not isinstance(row, Mapping) or row.get("role") not in known:
        raise DataError(f"{where}: expected an object with role {', '.join(sorted(known))}")
    content = row.get("content")
    if content is not None and not isinstance(content, str):
        raise DataError(f"{where}: content must be text, got {type(content).__name__}")
    calls = row.get("tool_calls") or ()
    return Message(
        role=row["role"],
        content=content or "",
        reasoning=row.get("reasoning_content") or row.get("reasoning") or "",
        tool_calls=tuple(_tool_call(f"{where}.tool_calls[{i}]", c) for i, c in enumerate(calls)),
        tool_call_id=row.get("tool_call_id"),
        name=row.get("name"),
    )


def _tool_call(where: str, row: Any) -> ToolCall:
    try:
        function = _FUNCTION.validate_python(row.get("function", row))
        arguments = function.arguments
        read = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValidationError, AttributeError, json.JSONDecodeError) as error:
        raise DataError(
            f"{where}: expected {{'function': {{'name': …, 'arguments': {{…}}}}}}, got {row!r:.120}"
        ) from error
    if not isinstance(read, dict):
        raise DataError(f"{where}: arguments must be an object, got {arguments!r:.80}")
    return ToolCall(function.name, read, row.get("id"))
