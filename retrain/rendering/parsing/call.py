"""One tool call as a JSON object."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from retrain.types import ToolCall


class UnreadableCall(ValueError):
    """A tool call that cannot be read; the message says why, for the model to read."""


def read_object(text: str, start: int) -> tuple[dict[str, Any], int]:
    """Read the JSON object that begins at `start`, spaces before it allowed.

    Returns:
        The object and where it ends.

    Raises:
        UnreadableCall: There is none, or it cannot be written as UTF-8.
    """
    start += len(text[start:]) - len(text[start:].lstrip())
    try:
        value, end = _DECODER.raw_decode(text, start)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise UnreadableCall(f"not valid JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise UnreadableCall("the JSON is nested too deeply") from error
    except ValueError as error:
        raise UnreadableCall(f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UnreadableCall(f"expected a JSON object, found {_kind(value)}")
    return value, end


def read_call(value: dict[str, Any], arguments_key: str) -> ToolCall:
    """Turn an object into a call.

    Args:
        value: `{"name": …, arguments_key: {…}}`; missing arguments count as none.
        arguments_key: "arguments" or "parameters", by format.

    Raises:
        UnreadableCall: The name is missing, or the arguments are no object.
    """
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise UnreadableCall('the call needs a "name", a non-empty string')
    arguments = value.get(arguments_key, {})
    if not isinstance(arguments, dict):
        raise UnreadableCall(f'"{arguments_key}" must be an object, found {_kind(arguments)}')
    return ToolCall(name, arguments)


def _kind(value: Any) -> str:
    names = {str: "a string", list: "an array", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "an object")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
