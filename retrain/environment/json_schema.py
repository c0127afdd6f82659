"""Turns pydantic's JSON schemas into the short form that chat templates and models know.

Transformers' `get_json_schema` writes this form: no titles, no references, and optional values as
`nullable` rather than as a union with null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_BY_NAME = ("properties", "$defs")
_DROPPED = ("title", "discriminator")
"""A discriminator points at definitions, which stand in place here."""


def shorten_schema(schema: Mapping[str, Any]) -> Schema:
    """Shorten a JSON schema without changing what it means.

    Args:
        schema: As pydantic writes it. References to definitions that contain themselves stay, and
            so do those definitions.
    """
    definitions: Mapping[str, Schema] = schema.get("$defs", {})
    recursive = {name for name in definitions if _reaches(name, name, definitions)}
    inlined = {name: body for name, body in definitions.items() if name not in recursive}
    body = {key: value for key, value in schema.items() if key != "$defs"}
    short: Schema = _shorten(body, inlined)
    if recursive:
        short["$defs"] = {name: _shorten(definitions[name], inlined) for name in sorted(recursive)}
    return short


def _shorten(node: Any, definitions: Mapping[str, Schema]) -> Any:
    if isinstance(node, list):
        return [_shorten(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    target = _target(node)
    if target in definitions:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        node = {**definitions[target], **rest}
    keys = sorted((key for key in node if _kept(key, node)), key=lambda key: key != "type")
    return _optional({key: _entry(key, node[key], definitions) for key in keys})


def _entry(key: str, value: Any, definitions: Mapping[str, Schema]) -> Any:
    if key in _BY_NAME:
        return {name: _shorten(body, definitions) for name, body in value.items()}
    if key in ("default", "enum", "const", "examples"):
        return value
    return _shorten(value, definitions)


def _kept(key: str, node: Schema) -> bool:
    if key == "additionalProperties":
        return node[key] is not False
    return key not in _DROPPED


def _optional(node: Schema) -> Schema:
    choices = node.get("anyOf", [])
    others = [choice for choice in choices if choice != {"type": "null"}]
    if len(others) != 1 or len(others) == len(choices):
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**others[0], "nullable": True, **rest}


def _target(node: Schema) -> str:
    return str(node.get("$ref", "")).removeprefix("#/$defs/")


def _reaches(name: str, goal: str, definitions: Mapping[str, Schema]) -> bool:
    seen: set[str] = set()
    queue = _references(definitions[name])
    while queue:
        reference = queue.pop()
        if reference == goal:
            return True
        if reference in definitions and reference not in seen:
            seen.add(reference)
            queue |= _references(definitions[reference])
    return False


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for item in node for name in _references(item)}
    if not isinstance(node, dict):
        return set()
    own = {_target(node)} if isinstance(node.get("$ref"), str) else set()
    return own.union(*(_references(value) for value in node.values()))
