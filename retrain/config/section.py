"""What every section of the configuration shares: strict types, frozen values, clear faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

At = tuple[str | int, ...]
"""Where in a section: keys and list positions."""

_SCALARS = (str, int, float, bool, type(None))
_DEEPEST = 32


class Section(BaseModel):
    """Base of the sections: frozen, no unknown key, no silent conversion of types."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        protected_namespaces=(),
        defer_build=True,
    )


def faults(*found: tuple[At, str]) -> PydanticCustomError:
    """An exception for a validator to raise, which carries any number of faults.

    Args:
        *found: Per fault, where it is (relative to the section) and what is wrong.
    """
    text = "; ".join(message for _, message in found)
    return PydanticCustomError("faults", "{text}", {"text": text, "found": list(found)})


def _json_only(value: dict[str, Any]) -> dict[str, Any]:
    found = list(_not_json(value, ()))
    if found:
        raise faults(*found)
    return value


def _not_json(value: object, at: At) -> list[tuple[At, str]]:
    if len(at) > _DEEPEST:
        return [(at[:1], f"is nested more than {_DEEPEST} deep, or holds itself")]
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            return [(at, f"has the key {wrong[0]!r}; keys must be text, so quote it")]
        return [fault for key, inner in value.items() for fault in _not_json(inner, (*at, key))]
    if isinstance(value, list | tuple):
        return [fault for i, inner in enumerate(value) for fault in _not_json(inner, (*at, i))]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return [(at, f"expected a finite number, got {value}")]
    if isinstance(value, _SCALARS):
        return []
    return [
        (at, f"expected a JSON value, got {type(value).__name__} {value}; quote it to mean text")
    ]


JsonMapping = Annotated[dict[str, Any], AfterValidator(_json_only)]
"""Free settings of a user's own code: JSON values, since they may cross a process."""


def _a_name_or_mapping(value: object) -> object:
    if isinstance(value, dict) and value:
        return _json_only(value)
    if isinstance(value, str) and value:
        return value
    raise faults(((), f"expected a name, or a mapping, got {value!r:.60}"))


NameOrMapping = Annotated[str | dict[str, Any], BeforeValidator(_a_name_or_mapping)]
"""What is chosen by name, alone or with its settings."""

Texts = Annotated[tuple[str, ...], Field(strict=False)]
"""A list of texts."""

Positive = Annotated[int, Field(gt=0)]
"""An integer of at least 1."""

Seconds = Annotated[float, Field(gt=0)]
"""A duration."""
