"""Whether the environment of a configuration rewrites history, told before anything runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from retrain.environment.base import Environment
from retrain.environment.registry import ENVIRONMENTS, make_environment_factory
from retrain.errors import EnvironmentFailure, RetrainError, boundary
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
        False also where the environment cannot be loaded, made or asked: whoever plays it says why.
    """
    try:
        found = _declared(ENVIRONMENTS.get(type))
        if not isinstance(found, property) or found is vars(Environment)[_NAME]:
            return found is True
        with EventLoopThread() as loop:
            return loop.run(_ask(make_environment_factory(type, env_specific_config)))
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


async def _ask(make: Callable[[], Environment]) -> bool:
    async with boundary(EnvironmentFailure, "environment constructor"):
        environment = make()
    try:
        async with boundary(EnvironmentFailure, _NAME):
            return bool(environment.rewrites_history)
    finally:
        async with boundary(EnvironmentFailure, "close"):
            await environment.close()
