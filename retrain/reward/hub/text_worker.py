"""Regular expressions and JSON schemas; runs in a worker process with a time limit."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

_FENCED = re.compile(r"```[\w-]*\s*\n(.*?)```", re.DOTALL)


def search(pattern: str, text: str, whole: bool, ignore_case: bool) -> bool:
    """Whether a regular expression has a match in a text, or matches all of it.

    Raises:
        ValueError: It is no regular expression.
    """
    try:
        expression = re.compile(pattern, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern[:80]!r} is no regular expression: {error}") from error
    found = expression.fullmatch(text.strip()) if whole else expression.search(text)
    return found is not None


def conforms(schema: Any, text: str) -> bool:
    """Whether a text is JSON that a schema allows.

    Raises:
        ValueError: The schema is none, or refers to another document.
    """
    import jsonschema
    import jsonschema.validators
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable

    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
        instance = _read(text)
        return instance is not _NOTHING and bool(kind(schema, registry=REGISTRY).is_valid(instance))
    except jsonschema.SchemaError as error:
        raise ValueError(f"not a JSON schema: {error.message}") from error
    except Unresolvable as error:
        raise ValueError(f"a reference cannot be followed: {error}") from error


_NOTHING = object()


def _read(text: str) -> Any:
    for candidate in (text, *_FENCED.findall(text)[-1:]):
        try:
            return json.loads(candidate, parse_constant=_refuse)
        except (ValueError, RecursionError):
            continue
    return _NOTHING


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
