"""Checks a call's arguments against the JSON schema of an MCP tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema.exceptions import ValidationError, best_match
from jsonschema.protocols import Validator

_MOST = 5


def argument_problems(validator: Validator, arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the arguments, as "days: expected integer, got 'two'".

    Args:
        validator: Of the tool's input schema.
        arguments: The model's, by name.

    """
    errors = sorted(validator.iter_errors(dict(arguments)), key=_place)
    return [_in_words(error) for error in errors[:_MOST]]


def _place(error: ValidationError) -> tuple[list[str], str]:
    return [str(part) for part in error.absolute_path], str(error.validator)


def _in_words(error: ValidationError) -> str:
    """One problem: which argument, what was expected, what came."""
    inner = best_match(error.context) if error.context else None
    if inner is not None and len(inner.absolute_path) > len(error.absolute_path):
        return _in_words(inner)
    place = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return "; ".join(f"{_within(place, name)}: missing" for name in missing)
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        extra = [name for name in error.instance if name not in known]
        return "; ".join(f"{_within(place, name)}: there is no such argument" for name in extra)
    got = f"{error.instance!r:.80}"
    if error.validator == "type":
        types = error.validator_value
        wanted = types if isinstance(types, str) else " or ".join(types)
        return f"{place}: expected {wanted}, got {got}"
    if error.validator == "enum":
        return f"{place}: expected one of {', '.join(map(repr, error.validator_value))}, got {got}"
    return f"{place or 'arguments'}: {error.message:.200}"


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
