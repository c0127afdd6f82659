"""What crosses a process: JSON, and nothing that would not come back as it was.

Tuples arrive as lists, as in any JSON. Everything else that JSON cannot hold is refused where it
is sent, with its place: `task.metadata['when'] is a datetime`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import TypeAdapter

from retrain.errors import EnvironmentFailure
from retrain.types import StepResult

T = TypeVar("T")

_SCALARS = (str, int, float, bool, type(None))
_DEEPEST = 100
_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def plain(value: Any, at: str, *, types: bool = True, depth: int = 0) -> Any:
    """A value as JSON has it: dictionaries with text keys, lists and scalars.

    Args:
        value: JSON values, or one of `retrain.types`.
        at: Where it stands, for messages ("task", "step.info").
        types: Whether dataclasses are sent too; the other side knows which ones to read.
        depth: How deep in the value that was sent it stands.

    Raises:
        EnvironmentFailure: It holds what JSON cannot; the message names the place.
    """
    if isinstance(value, _SCALARS):
        return value
    if depth > _DEEPEST:
        raise EnvironmentFailure(f"{at}: is nested more than {_DEEPEST} deep, or holds itself")
    inside = partial(plain, types=types, depth=depth + 1)
    if types and isinstance(value, StepResult):
        return {name: inside(inner, f"{at}.{name}") for name, inner in value._asdict().items()}
    if types and is_dataclass(value) and not isinstance(value, type):
        return {f.name: inside(getattr(value, f.name), f"{at}.{f.name}") for f in fields(value)}
    if isinstance(value, Mapping):
        return {_text_key(k, at): inside(inner, f"{at}[{k!r}]") for k, inner in value.items()}
    if isinstance(value, list | tuple):
        return [inside(inner, f"{at}[{i}]") for i, inner in enumerate(value)]
    raise EnvironmentFailure(
        f"{at}: is a {type(value).__name__}, which cannot cross to another process; use text, "
        "numbers, lists and dictionaries, or rollout.executor: local"
    )


def _text_key(key: Any, at: str) -> str:
    if isinstance(key, str):
        return key
    raise EnvironmentFailure(
        f"{at}: has the key {key!r}; only text keys come back from another process as they were"
    )


def read(kind: type[T], value: Any) -> T:
    """One of `retrain.types`, read from what `plain` made of it.

    Raises:
        pydantic.ValidationError: It is none; the two sides run different versions of retrain.
    """
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    adapter: TypeAdapter[T] = _ADAPTERS[kind]
    return adapter.validate_python(value)


def encode(content: Mapping[str, Any]) -> bytes:
    """A message between processes as bytes; floats come back bit for bit."""
    return json.dumps(content, separators=(",", ":")).encode()


def decode(data: bytes) -> dict[str, Any]:
    """A message between processes."""
    content: dict[str, Any] = json.loads(data)
    return content
