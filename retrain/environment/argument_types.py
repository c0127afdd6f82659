"""Gives a call's arguments the types that the tool's schema names, as transformers' parser does.

Models write "7" where a tool takes an integer. Only text is touched, and only where the schema does
not ask for text; what cannot be read as the type stays text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from retrain.environment.base import ToolSchema


def typed_arguments(schema: ToolSchema | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the arguments of one call.

    Args:
        schema: The tool's; None leaves the arguments as they are.
        arguments: As the model wrote them.
    """
    function = {} if schema is None else schema["function"]
    properties = function.get("parameters", {}).get("properties", {})
    return {
        name: _typed(value, _types(properties[name]))
        if name in properties and isinstance(value, str)
        else value
        for name, value in arguments.items()
    }


def _types(schema: Any) -> list[str]:
    if not isinstance(schema, Mapping):
        return []
    declared = schema.get("type", [])
    types = [declared] if isinstance(declared, str) else list(declared)
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        types += _types(choice)
    return [*types, "null"] if schema.get("nullable") else types


def _typed(text: str, types: list[str]) -> Any:
    for name in types:
        if name not in _READERS:
            continue
        try:
            return _READERS[name](text)
        except ValueError:
            continue
    return text


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = _finite(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


def _number(text: str) -> int | float:
    number = _finite(text)
    return int(number) if number.is_integer() and "." not in text else number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "1", "false", "0"):
        raise ValueError(text)
    return word in ("true", "1")


def _null(text: str) -> None:
    if text.strip() not in ("null", "None"):
        raise ValueError(text)


def _of_kind(kind: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = json.loads(text)
        if not isinstance(value, kind):
            raise ValueError(text)
        return value

    return read


_READERS: Mapping[str, Callable[[str], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "object": _of_kind(dict),
    "array": _of_kind(list),
}
