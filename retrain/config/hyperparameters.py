"""`algorithm.hyperparameters` as an object: the vocabulary, plus the frameworks' own options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import (
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from retrain.config.section import At, faults
from retrain.config.vocabulary import SYNONYMS, Vocabulary

PREFIXES = ("trl_", "slime_", "torch_")
"""What stands before a framework's own option."""

BRIDGE_OPTIONS: Mapping[str, str] = {
    "slime_use_retrain_environment": "episodes run in retrain's environment; false is refused",
    "slime_use_retrain_rewards": "rewards come from retrain's calculator; false is refused",
    "slime_gradient_checkpointing": "recompute activations in the backward pass",
    "slime_train_async": "the same key as `rollout.asynchronous`",
}
"""Prefixed keys that are no option of the framework: the backend itself answers to them."""


class Hyperparameters(Vocabulary):
    """`algorithm.hyperparameters`, resolved: an attribute for each key of the vocabulary."""

    _framework: dict[str, Any] = PrivateAttr(default_factory=dict)

    def prefixed(self, framework: str) -> dict[str, object]:
        """The options written for one framework, without their prefix.

        They are not validated here: the backend knows its framework's options. `BRIDGE_OPTIONS`
        are among them.

        Args:
            framework: "trl", "slime", "torch" or another backend's name.
        """
        start = f"{framework}_"
        return {k.removeprefix(start): v for k, v in self._framework.items() if k.startswith(start)}

    def given(self) -> dict[str, object]:
        """What was set on purpose, defaults left out."""
        return self.model_dump(exclude_unset=True)

    def adopt(self, options: Mapping[str, Any], derived: Iterable[str]) -> None:
        """Complete what was just read: for the `algorithm:` section, which knows the backend.

        Args:
            options: Options of a third party's backend, prefixed.
            derived: Keys that hold computed values, so that nobody gave them.
        """
        self._framework.update(options)
        self.model_fields_set.difference_update(derived)

    @field_validator("global_batch_size", mode="before")
    @classmethod
    def _whole_iteration(cls, value: object, info: ValidationInfo) -> object:
        if value is not None:
            return value
        return info.data.get("rollout_batch_size", 1) * info.data.get("n_samples_per_prompt", 1)

    @field_validator("top_k")
    @classmethod
    def _off_or_positive(cls, value: int) -> int:
        if value == -1 or value > 0:
            return value
        raise faults(((), f"expected -1 (off) or an integer greater than 0, got {value}"))

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, given: Any, handler: Callable[[Any], Hyperparameters]) -> Hyperparameters:
        if not isinstance(given, Mapping):
            return handler(given)
        framework = {key: value for key, value in given.items() if is_prefixed(key)}
        own, clashes = canonical({k: v for k, v in given.items() if k not in framework})
        resolved = handler(own)
        if clashes:
            raise faults(*clashes)
        resolved._framework.update(framework)
        return resolved

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {**handler(self), **self._framework}


def is_prefixed(key: object) -> bool:
    """Whether a key is a framework's own option."""
    return isinstance(key, str) and key.startswith(PREFIXES)


def canonical(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[At, str]]]:
    """Write every synonym as its key; a null for a key without default counts as not given.

    Returns:
        The keys, and a fault for each that is spelled twice with different values.
    """
    result: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    clashes: list[tuple[At, str]] = []
    for written, value in given.items():
        key = SYNONYMS.get(written, written)
        if value is None and key in _NULLABLE:
            continue
        if key in result and result[key] != value:
            clashes.append(((written,), contradiction(written, value, spelled[key], result[key])))
        result.setdefault(key, value)
        spelled.setdefault(key, written)
    return result, clashes


def contradiction(one: str, value: object, other: str, other_value: object) -> str:
    """Say that two spellings of one key hold different values."""
    return (
        f"{value!r} contradicts {other}: {other_value!r}; {one} and {other} are the same key, "
        "keep one of them"
    )


_NULLABLE = frozenset(k for k, field in Vocabulary.model_fields.items() if field.default is None)
