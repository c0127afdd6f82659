"""Say what is wrong with a configuration, in the user's words and never in pydantic's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from retrain.config.redact import REDACTED, is_credential
from retrain.config.section import At
from retrain.config.vocabulary import SYNONYMS, Vocabulary, spellings
from retrain.errors import nearest

_EXPECTED = {
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "dict_type": "a mapping (lines of `key: value`)",
    "model_type": "a mapping (lines of `key: value`)",
    "list_type": "a list",
    "tuple_type": "a list",
    "finite_number": "a finite number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "text that is not empty",
    "too_short": "a list that is not empty",
    "string_pattern_mismatch": "text that matches {pattern}",
    "literal_error": "{expected}",
}
_BOOLEANS = {"yes": "true", "on": "true", "no": "false", "off": "false"}


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a configuration.

    Attributes:
        at: Where, as it is spelled in the file.
        message: What is wrong and what to do.
        place: The line, or the option, where it was written; "" where nobody wrote it.
        stage: The stage that `at` stands in; "" for the file itself.
    """

    at: At
    message: str
    place: str = ""
    stage: str = ""

    def __str__(self) -> str:
        parts = (self.place, self.stage, dotted(self.at), self.message)
        return ": ".join(part for part in parts if part)


def dotted(at: At) -> str:
    """Write a place as users do: `stages[1].algorithm.name`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)
    return text.removeprefix(".")


def report(where: str, problems: Sequence[Problem]) -> str:
    """One message for all problems of a file or stage."""
    if len(problems) == 1:
        only = problems[0]
        head = f"{where}, {only.place}" if only.place else where
        return f"{head}: {replace(only, place='')}"
    return f"{where}: {len(problems)} problems\n" + "\n".join(f"  {p}" for p in problems)


def explain(error: ValidationError, source: object, model: type[BaseModel]) -> list[Problem]:
    """Turn a validation error into problems.

    Args:
        error: What pydantic found.
        source: What was validated, to spell keys as the user did.
        model: What it was validated against, to name the nearest known key.
    """
    return [
        Problem(_as_written(at, source), message)
        for details in error.errors()
        for at, message in _messages(details, model)
    ]


def _messages(details: ErrorDetails, model: type[BaseModel]) -> Iterator[tuple[At, str]]:
    at, context = details["loc"], details.get("ctx", {})
    if details["type"] == "faults":
        for place, message in context["found"]:
            yield (*at, *place), message
    elif details["type"] == "nested":
        for inner in context["errors"]:
            for place, message in _messages(inner, context["model"]):
                yield (*at, *place), message
    else:
        yield at, _message(details, model)


def _message(details: ErrorDetails, model: type[BaseModel]) -> str:
    at, kind, context = details["loc"], details["type"], details.get("ctx", {})
    key = str(at[-1]) if at else ""
    parent = _model_at(model, at[:-1])
    if kind == "extra_forbidden":
        return f"unknown key; {_nearest_key(key, parent, model)}"
    if kind == "missing":
        field = parent.model_fields[key] if parent else None
        return f"is missing; it is required: {field.description if field else 'set it'}"
    if kind == "invalid_key":
        return "keys must be text; quote it"
    if kind not in _EXPECTED:
        return details["msg"]
    expected = _EXPECTED[kind].format(**context)
    return f"expected {expected}, got {_shown(key, details['input'])}{_hint(kind, details)}"


def _shown(key: str, value: object) -> str:
    if is_credential(key):
        return REDACTED
    if value is None:
        return "nothing (null)"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _hint(kind: str, details: ErrorDetails) -> str:
    value = details["input"]
    if not isinstance(value, str):
        return ""
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", details["ctx"]["expected"])
        return f"; {nearest(value, known)}" if known else ""
    if kind == "bool_type" and value.lower() in _BOOLEANS:
        return f"; in YAML 1.2 that is text, so write {_BOOLEANS[value.lower()]}"
    if kind in ("int_type", "float_type") and re.fullmatch(r"[-+]?[\d.]+([eE][-+]?\d+)?", value):
        return "; remove the quotes"
    return ""


def _nearest_key(key: str, parent: type[BaseModel] | None, model: type[BaseModel]) -> str:
    elsewhere = [dotted((*at, key)) for at, other in _models(model) if key in _keys(other)]
    if elsewhere:
        return f"it belongs under {elsewhere[0].rpartition('.')[0] or 'the top level'}"
    return nearest(key, _keys(parent) if parent else ())


def _keys(model: type[BaseModel]) -> set[str]:
    synonyms = SYNONYMS if issubclass(model, Vocabulary) else {}
    return {*model.model_fields, *synonyms}


def _models(model: type[BaseModel], at: At = ()) -> Iterator[tuple[At, type[BaseModel]]]:
    """A model and all models that are its sections."""
    yield at, model
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _models(field.annotation, (*at, name))


def _model_at(model: type[BaseModel], at: Iterable[str | int]) -> type[BaseModel] | None:
    """The model that stands at a place; None where there is none."""
    here: Any = model
    for key in at:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(str(key))
            here = _plain(field.annotation) if field else None
        else:
            arguments = get_args(here)
            here = arguments[1 if get_origin(here) is dict else 0] if arguments else None
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def _plain(annotation: Any) -> Any:
    """The type without `| None`."""
    if get_origin(annotation) in (dict, tuple, list):
        return annotation
    rest = [part for part in get_args(annotation) if part is not type(None)]
    return rest[0] if len(rest) == 1 else annotation


def _as_written(at: At, source: object) -> At:
    """Spell a place as the file does: a synonym or a framework's option where that was used."""
    backend = str(_step(_step(source, "algorithm"), "backend") or "trl")
    written: list[str | int] = []
    for key in at:
        if isinstance(source, Mapping) and isinstance(key, str) and key not in source:
            key = next((s for s in spellings(key, backend) if s in source), key)
        source = _step(source, key)
        written.append(key)
    return tuple(written)


def _step(source: object, key: str | int) -> object:
    if isinstance(source, Mapping):
        return source.get(key)
    if isinstance(source, list | tuple) and isinstance(key, int) and key < len(source):
        return source[key]
    return None
