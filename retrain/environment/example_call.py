"""A tool call with arguments of the right types, made from a tool's schema alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.environment.base import ToolSchema
from retrain.types import ToolCall

_EXAMPLES: Mapping[str, Any] = {
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "null": None,
}


def example_call(tool: ToolSchema) -> ToolCall:
    """A call of a tool with an example of each argument that it requires."""
    function = tool["function"]
    arguments = _example(function.get("parameters", {"type": "object"}))
    return ToolCall(str(function["name"]), arguments)


def _example(schema: Mapping[str, Any]) -> Any:
    """A value that fits a JSON schema of the kind that tools have."""
    for given in ("default", "const"):
        if given in schema:
            return schema[given]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: _example(properties.get(name, {})) for name in schema.get("required", ())}
    return _EXAMPLES.get(str(schema.get("type")), "1")
