"""The input schemas of MCP tools, which anybody may have written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry

from retrain.errors import ConfigError


def tool_validator(schema: Mapping[str, Any], what: str) -> Validator:
    """What checks a call's arguments.

    Args:
        schema: The tool's input schema.
        what: Which tool it is of, for the message.

    Raises:
        ConfigError: It is no schema, describes no object, or refers to what it does not hold.
    """
    if schema.get("type") != "object":
        raise ConfigError(f"{what}: its input schema must be of type object, got {schema!r:.120}")
    cls = validator_for(schema)
    try:
        cls.check_schema(schema)
    except SchemaError as error:
        place = ".".join(str(part) for part in error.absolute_path) or "its root"
        raise ConfigError(
            f"{what}: its input schema is invalid at {place}: {error.message:.200}"
        ) from None
    for reference in _references(schema):
        if not _resolves(reference, schema):
            raise ConfigError(f"{what}: its input schema refers to {reference!r}, which it lacks")
    return cls(schema, registry=Registry())


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from _references(inner)


def _resolves(reference: str, schema: Mapping[str, Any]) -> bool:
    """Whether a reference leads to a place in the same schema; nothing is fetched."""
    if not reference.startswith("#"):
        return False
    node: Any = schema
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, Mapping) and key in node:
            node = node[key]
        else:
            return False
    return True
