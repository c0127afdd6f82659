"""The `algorithm:` section: which algorithm, on which backend, with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)

from retrain.config.hyperparameters import Hyperparameters, canonical, contradiction
from retrain.config.section import At, Section, faults
from retrain.config.vocabulary import ROWS, SFT_KEYS

SFT_GLOBAL_BATCH_SIZE = 8
"""Demonstrations per optimizer step where the configuration names no number."""


class AlgorithmConfig(Section):
    """How the model is trained."""

    name: Literal["grpo", "dr_grpo", "rloo", "gspo", "sft"] = Field(description="the algorithm")
    backend: str = Field(
        default="trl", min_length=1, description="who trains: the one key to change"
    )
    baseline: Literal["agent", "group"] = Field(
        default="agent",
        description="whose rewards an episode is compared with, in an environment of several "
        "agents: those of the same agent in its group, or all of the group",
    )
    hyperparameters: Hyperparameters = Field(
        default_factory=Hyperparameters, validate_default=True, description="see below"
    )

    def incomplete(self) -> list[tuple[At, str]]:
        """What keeps this from being run, by place within the section.

        The file's own section may be incomplete where stages complete it, so this is asked of what
        is run only.
        """
        here = ("hyperparameters",)
        given = self.hyperparameters
        found: list[tuple[At, str]] = []
        if (given.num_iterations is None) == (given.num_epochs is None):
            state = "neither is set" if given.num_epochs is None else "both are set"
            found.append((here, f"needs exactly one of num_iterations and num_epochs; {state}"))
        if self.name == "sft":
            return found + _without_meaning_for_sft(given)
        if given.n_samples_per_prompt < 2:
            message = f"must be at least 2: {self.name} compares the episodes of one prompt"
            found.append(((*here, "n_samples_per_prompt"), message))
        rollouts = given.rollout_batch_size * given.n_samples_per_prompt
        if rollouts % given.global_batch_size:
            message = (
                f"{given.global_batch_size} does not divide the {rollouts} rollouts of an "
                f"iteration (rollout_batch_size {given.rollout_batch_size} x n_samples_per_prompt "
                f"{given.n_samples_per_prompt}); use one of {_divisors(rollouts)}"
            )
            found.append(((*here, "global_batch_size"), message))
        return found

    @field_validator("hyperparameters", mode="wrap")
    @classmethod
    def _resolve(
        cls, value: Any, handler: Callable[[Any], Hyperparameters], info: ValidationInfo
    ) -> Hyperparameters:
        given = value.given() if isinstance(value, Hyperparameters) else value
        if not isinstance(given, Mapping):
            return handler(given)
        backend = info.data.get("backend", "")
        options, own = _split(given, backend)
        own, clashes = canonical(own)
        derived, more_clashes = _derived(own, backend)
        if info.data.get("name") == "sft" and "global_batch_size" not in own:
            derived.setdefault("global_batch_size", SFT_GLOBAL_BATCH_SIZE)
        resolved = handler({**derived, **own})
        if clashes or more_clashes:
            raise faults(*clashes, *more_clashes)
        resolved.adopt(options, derived.keys() - own.keys())
        return resolved

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        if self.name == "sft" and "hyperparameters" in written:
            own = written["hyperparameters"]
            kept = {k: v for k, v in own.items() if k not in ROWS or k in SFT_KEYS}
            return {**written, "hyperparameters": kept}
        return written


def _split(given: Mapping[str, Any], backend: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part the options of a third party's backend, prefixed with its name, from the rest."""
    start = f"{backend}_"
    theirs = {
        key: value
        for key, value in given.items()
        if backend not in ("", "trl", "slime", "torch")
        and isinstance(key, str)
        and key.startswith(start)
    }
    return theirs, {key: value for key, value in given.items() if key not in theirs}


def _derived(
    own: Mapping[str, Any], backend: str
) -> tuple[dict[str, object], list[tuple[At, str]]]:
    """Keys that the chosen framework's own options set, since they are the same thing."""
    derived: dict[str, object] = {}
    clashes: list[tuple[At, str]] = []
    for key, row in ROWS.items():
        word = row.word(backend)
        option = f"{backend}_{word.option}"
        if not (word.option and word.same) or option not in own:
            continue
        value = own[option]
        if key in own and own[key] != value:
            clashes.append(((option,), contradiction(option, value, key, own[key])))
        derived[key] = value
    return derived, clashes


def _without_meaning_for_sft(given: Hyperparameters) -> list[tuple[At, str]]:
    wrong = [key for key in given.given() if key in ROWS and key not in SFT_KEYS]
    return [(("hyperparameters", key), "means nothing to sft; remove it") for key in wrong]


def _divisors(number: int) -> str:
    return ", ".join(str(n) for n in range(1, number + 1) if number % n == 0)
