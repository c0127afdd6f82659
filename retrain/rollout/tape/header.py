"""What a new tape says about itself, and in what a configuration departs from it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from retrain.config.redact import REDACTED, redact
from retrain.rollout.tape.format import TapeHeader

if TYPE_CHECKING:
    from retrain.config import RunConfig

_PACKAGES = ("retrain", "transformers", "tokenizers", "torch")
"""Whose versions may change what an episode holds."""

_SHAPING = (
    "seed",
    "model.name_or_path",
    "model.revision",
    "environment",
    "reward_setup",
    "rendering",
    "rollout.max_turns",
    "rollout.engine_retries",
    "rollout.failure",
    "algorithm.name",
    "algorithm.hyperparameters.max_response_len",
    "algorithm.hyperparameters.max_tokens_per_turn",
    "algorithm.hyperparameters.max_context_len",
    "algorithm.hyperparameters.max_prompt_len",
    "algorithm.hyperparameters.temperature",
)
"""The settings that the tokens, rewards and advantages of an episode follow from."""


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that is another one now than when the tape was recorded.

    Attributes:
        key: Its dotted path.
        recorded: Its value then; None where it was not set.
        now: Its value now.
    """

    key: str
    recorded: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.key}: {self.recorded!r} on the tape, {self.now!r} now"


def make_header(config: RunConfig, engine: str) -> TapeHeader:
    """The header of a tape that is recorded now.

    Args:
        config: The configuration; its credentials are redacted.
        engine: What writes the turns.
    """
    return TapeHeader(
        config=redact(config.model_dump(mode="json")),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=installed_versions(),
        engine=engine,
    )


def installed_versions() -> dict[str, str]:
    """Python's version, and those of the packages that matter, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def settings_that_differ(header: TapeHeader, config: RunConfig) -> list[SettingDifference]:
    """The settings that shape an episode and are not those of the tape, by key.

    Where the tape came to lie or was written to does not count, nor does what trains; redacted
    values are not compared.

    Args:
        header: The tape's.
        config: The configuration that plays it.
    """
    then = _leaves(header.config)
    now = _leaves(redact(config.model_dump(mode="json")))
    keys = [key for key in dict.fromkeys((*now, *then)) if _shapes(key)]
    return [
        SettingDifference(key, then.get(key), now.get(key))
        for key in keys
        if then.get(key) != now.get(key) and REDACTED not in (then.get(key), now.get(key))
    ]


def _shapes(key: str) -> bool:
    return any(key == shaping or key.startswith(f"{shaping}.") for shaping in _SHAPING)


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The scalars and lists of nested mappings, by dotted path."""
    if not isinstance(value, Mapping):
        return {path: value}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found |= _leaves(item, f"{path}.{key}" if path else str(key))
    return found
