"""Every key of a configuration, and the configurations in which it alone is another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from retrain.config import BRIDGE_OPTIONS, Hyperparameters, RunConfig
from retrain.config.vocabulary import ROWS, SFT_KEYS

HYPERPARAMETERS = ("algorithm", "hyperparameters")
_NOT_KEYS = (("stages",), ("algorithm", "backend"))
"""What is resolved before a backend is asked, and what is compared."""

_OTHER_TRAINING = "sft"
"""The algorithm beside which no key keeps its meaning."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a resolved configuration.

    Attributes:
        at: Where it stands.
        value: Its value; a section that may be absent is a key too.
        given: Whether somebody set it; else it holds retrain's default.
        annotation: Its type.
    """

    at: tuple[str, ...]
    value: Any
    given: bool
    annotation: Any

    @property
    def name(self) -> str:
        """As users write it: hyperparameters by their own name, everything else dotted."""
        return self.at[-1] if self.at[:2] == HYPERPARAMETERS else ".".join(self.at)


def keys_of(config: RunConfig, backends: tuple[str, ...]) -> Iterator[Key]:
    """Every key of a configuration, in the order of its documentation.

    Args:
        config: The resolved configuration of one training.
        backends: Whose own options are keys too.
    """
    sft = config.algorithm.name == "sft"
    for key in _section(config, ()):
        if not (sft and key.at[:2] == HYPERPARAMETERS and key.at[-1] not in SFT_KEYS):
            yield key
    hyper = config.algorithm.hyperparameters
    written = {f"{b}_{name}": v for b in backends for name, v in hyper.prefixed(b).items()}
    absent = [name for name in BRIDGE_OPTIONS if name.startswith(tuple(f"{b}_" for b in backends))]
    for name in dict.fromkeys((*written, *absent)):
        yield Key((*HYPERPARAMETERS, name), written.get(name), name in written, bool)


def changed(config: RunConfig, key: Key) -> Iterator[RunConfig]:
    """The configuration with another value of one key, as often as there is a likely one.

    The others keep their values, also those that would be computed anew from the changed one.
    """
    for value in _others(key):
        if key.at[:2] == HYPERPARAMETERS and key.name not in ROWS:
            yield _replaced(config, HYPERPARAMETERS, _with_option(config, key.at[-1], value))
        else:
            yield _replaced(config, key.at, value)


def _section(section: BaseModel, at: tuple[str, ...]) -> Iterator[Key]:
    for name, field in type(section).model_fields.items():
        here, value = (*at, name), getattr(section, name)
        if here in _NOT_KEYS:
            continue
        optional = type(None) in get_args(field.annotation)
        if not isinstance(value, BaseModel) or optional:
            yield Key(here, value, name in section.model_fields_set, field.annotation)
        if isinstance(value, BaseModel):
            yield from _section(value, here)


def _with_option(config: RunConfig, name: str, value: Any) -> Hyperparameters:
    written = config.algorithm.hyperparameters.model_dump(exclude_none=True)
    own = {key: value for key, value in written.items() if key in ROWS}
    copied = Hyperparameters.model_validate(own)
    options = {key: value for key, value in written.items() if key not in ROWS}
    copied.adopt({**options, name: value}, ())
    return copied


def _replaced(section: Any, at: tuple[str, ...], value: Any) -> Any:
    head, rest = at[0], at[1:]
    inner = _replaced(getattr(section, head), rest, value) if rest else value
    return section.model_copy(update={head: inner})


def _others(key: Key) -> Iterator[Any]:
    """Values that a key could have instead."""
    value, kinds = key.value, _kinds(key.annotation)
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices:
        yield from (choice for choice in choices if choice != value and choice != _OTHER_TRAINING)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value * 2, value + 1, value // 2) if value > 0 else (value + 2,)
    elif isinstance(value, float):
        yield from (value / 2, value * 0.75) if value else (0.5,)
    elif isinstance(value, str | Path):
        yield type(value)(f"./{value}-other")
    elif isinstance(value, dict | tuple):
        yield from _longer(value, kinds)
    elif isinstance(value, BaseModel):
        yield None
    else:
        yield from (made for kind in kinds for made in _made(kind))


def _longer(value: Any, kinds: list[Any]) -> Iterator[Any]:
    """A mapping or a list with one entry more."""
    holder = next(kind for kind in kinds if get_origin(kind) in (dict, tuple))
    inner = get_args(holder)[1 if isinstance(value, dict) else 0]
    for entry in _made(str if inner is Any else inner):
        yield {**value, "other": entry} if isinstance(value, dict) else (*value, entry)


def _made(kind: Any) -> Iterator[Any]:
    """A value of a type, in place of null."""
    plain = {bool: (True, False), int: (64, 1), float: (0.5,), str: ("other",)}
    if kind in plain:
        yield from plain[kind]
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        try:
            yield kind()
        except ValidationError:  # it has keys without default
            return


def _kinds(annotation: Any) -> list[Any]:
    """The types of a union, without what is only said about them."""
    if get_origin(annotation) in (Union, UnionType):
        return [kind for part in get_args(annotation) for kind in _kinds(part)]
    inner = getattr(annotation, "__origin__", None)
    return _kinds(inner) if hasattr(annotation, "__metadata__") else [annotation]
