"""What the environment of a configuration declares of itself, told before anything runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from retrain.environment.base import Environment
from retrain.environment.registry import ENVIRONMENTS, make_environment_factory
from retrain.errors import EnvironmentFailure, RetrainError, boundary
from retrain.runtime import EventLoopThread


def declares(name: str, type: str, env_specific_config: Mapping[str, Any] | None = None) -> bool:
    """Whether an environment declares something of itself, such as `rewrites_history`.

    The class says so. One environment is made, and closed, only where it is a property of a class
    of the user's; a function that makes environments is judged by the class that it is annotated
    to return.

    Args:
        name: The attribute of `Environment`.
        type: As `environment.type`.
        env_specific_config: Its arguments.

    Returns:
        False also where the environment cannot be loaded, made or asked: whoever plays it says why.
    """
    try:
        found = _declared(name, ENVIRONMENTS.get(type))
        if not isinstance(found, property) or found is vars(Environment)[name]:
            return found is True
        with EventLoopThread() as loop:
            return loop.run(_ask(name, make_environment_factory(type, env_specific_config)))
    except RetrainError:
        return False


def _declared(name: str, constructor: Any) -> Any:
    """The attribute as the class has it, a property not called."""
    if not inspect.isclass(constructor):
        try:
            constructor = typing.get_type_hints(constructor).get("return")
        except (NameError, TypeError, AttributeError):
            return False
    return inspect.getattr_static(constructor, name, False)


async def _ask(name: str, make: Callable[[], Environment]) -> bool:
    async with boundary(EnvironmentFailure, "environment constructor"):
        environment = make()
    try:
        async with boundary(EnvironmentFailure, name):
            return bool(getattr(environment, name))
    finally:
        async with boundary(EnvironmentFailure, "close"):
            await environment.close()
