"""Whether the environment of a configuration rewrites history, told before anything runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from retrain.environment.base import Environment
from retrain.environment.registry import ENVIRONMENTS, make_environment_factory
from retrain.errors import RetrainError
from retrain.runtime import EventLoopThread

_NAME = "rewrites_history"


def rewrites_history(type: str, env_specific_config: Mapping[str, Any] | None = None) -> bool:
    """Whether an environment declares `rewrites_history`.

    The class says so. One environment is made, and closed, only where it is a property of a class
    of the user's; a function that makes environments is judged by the class that it is annotated
    to return.

    Args:
        type: As `environment.type`.
        env_specific_config: Its arguments.

    Returns:
        False also where the environment cannot be loaded: whoever makes it says why.
    """
    try:
        found = _declared(ENVIRONMENTS.get(type))
        if not isinstance(found, property) or found is vars(Environment)[_NAME]:
            return found is True
        return _ask(make_environment_factory(type, env_specific_config))
    except RetrainError:
        return False


def _declared(constructor: Any) -> Any:
    """The attribute as the class has it, a property not called."""
    if not inspect.isclass(constructor):
        try:
            constructor = typing.get_type_hints(constructor).get("return")
        except (NameError, TypeError, AttributeError):
            return False
    return inspect.getattr_static(constructor, _NAME, False)


def _ask(make: Callable[[], Environment]) -> bool:
    environment = make()
    try:
        return environment.rewrites_history
    finally:
        with EventLoopThread() as loop:
            loop.run(environment.close())
