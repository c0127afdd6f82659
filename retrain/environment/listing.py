"""What `environment.type` takes by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from retrain.environment.registry import ENVIRONMENTS
from retrain.errors import MissingDependency
from retrain.signatures import Argument, signature_of


@dataclass(frozen=True, slots=True)
class KnownEnvironment:
    """An environment that has a name.

    Attributes:
        name: The name.
        summary: The first line of its documentation.
        arguments: What `env_specific_config` may hold ("max_turns: int = 8").
        missing: What is not installed and how to install it; None where nothing is missing.
    """

    name: str
    summary: str = ""
    arguments: tuple[str, ...] = ()
    missing: str | None = None


def known_environments() -> tuple[KnownEnvironment, ...]:
    """Every environment that has a name, by name: retrain's own and those of installed packages.

    Raises:
        ConfigError: The module of one cannot be imported.
    """
    return tuple(_known(name) for name in ENVIRONMENTS.names())


def _known(name: str) -> KnownEnvironment:
    try:
        constructor = ENVIRONMENTS.get(name)
    except MissingDependency as error:
        return KnownEnvironment(name, missing=str(error))
    summary = (inspect.getdoc(constructor) or "").partition("\n")[0]
    arguments = tuple(map(_in_words, _arguments(constructor)))
    return KnownEnvironment(name, summary, arguments)


def _arguments(constructor: Callable[..., Any]) -> tuple[Argument, ...]:
    return signature_of(constructor).arguments


def _in_words(argument: Argument) -> str:
    hint = argument.hint
    written = hint.__name__ if isinstance(hint, type) else str(hint)
    kind = re.sub(r"\w+\.(?=\w)", "", written)
    text = argument.name if hint is Any else f"{argument.name}: {kind}"
    return text if argument.required else f"{text} = {argument.default!r}"
