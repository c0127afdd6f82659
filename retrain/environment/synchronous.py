"""`adapt`: any object with `reset`, `step` and perhaps `close` becomes an `Environment`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from retrain.environment.base import Environment, ToolSchema
from retrain.environment.method_calls import MethodCalls
from retrain.environment.replies import as_first_observation, as_reward, as_step_result
from retrain.errors import ConfigError
from retrain.types import Action, Observation, StepResult, Task


def adapt(environment: Any) -> AdaptedEnvironment:
    """Make an environment of an object, whatever class it has.

    Synchronous methods run in a thread of the environment's own: always the same one, and never two
    at once. Context variables that a method sees or sets are there for the next one. What the
    methods return may have any form that `retrain.environment.replies` reads.

    Args:
        environment: Has `reset(task)` or `reset(task, seed)`, `step(action)` and perhaps `close()`
            and `tools`. Each method may be synchronous or asynchronous.

    Raises:
        ConfigError: A method is missing, or takes other arguments.
    """
    if isinstance(environment, AdaptedEnvironment):
        return environment
    return AdaptedEnvironment(environment)


class AdaptedEnvironment(Environment):
    """An environment whose methods run where they must, and whose answers are checked.

    Attributes:
        inner: The object that was adapted.
    """

    def __init__(self, inner: Any) -> None:
        check_methods(inner)
        self.inner = inner
        self._takes_seed = takes_seed(inner.reset)
        self._call = MethodCalls(inner)

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The tools of the adapted object; none where it has no `tools`."""
        tools: Sequence[ToolSchema] = getattr(self.inner, "tools", ())
        return tools

    @property
    def rewrites_history(self) -> bool:
        """What the adapted object says; False where it says nothing."""
        return bool(getattr(self.inner, "rewrites_history", False))

    @property
    def replayable(self) -> bool:
        """What the adapted object says; False where it says nothing."""
        return bool(getattr(self.inner, "replayable", False))

    async def discover_tools(self) -> Sequence[ToolSchema]:
        """What the adapted object discovers; its `tools` where it discovers nothing."""
        discover = getattr(self.inner, "discover_tools", None)
        found: Sequence[ToolSchema] = (
            self.tools if discover is None else await self._call("discover_tools", discover)
        )
        return found

    async def snapshot(self) -> Any:
        """What the adapted object gives; None where it has no `snapshot`."""
        take = getattr(self.inner, "snapshot", None)
        return None if take is None else await self._call("snapshot", take)

    async def restore(self, task: Task, snapshot: Any) -> None:
        """Give the adapted object a state that its `snapshot` gave."""
        await self._call("restore", self.inner.restore, task, snapshot)

    @property
    def world(self) -> Any:
        """The adapted object, or what it names itself."""
        return self.inner.world if isinstance(self.inner, Environment) else self.inner

    @property
    def busy(self) -> bool:
        """Whether a synchronous call runs, be it one that nobody waits for any more."""
        return self._call.busy

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin an episode.

        Raises:
            EnvironmentFailure: `reset` raised, or returned no observation.
        """
        reset = partial(self.inner.reset, seed=seed) if self._takes_seed else self.inner.reset
        return as_first_observation(await self._call("reset", reset, task))

    async def step(self, action: Action) -> StepResult:
        """Answer one action.

        Raises:
            EnvironmentFailure: `step` raised, or returned no step result.
        """
        return as_step_result(await self._call("step", self.inner.step, action))

    async def final_reward(self) -> float:
        """Rate the whole episode, where the adapted object has a `final_reward`.

        Raises:
            EnvironmentFailure: It raised, or returned no finite number.
        """
        rate = getattr(self.inner, "final_reward", None)
        if rate is None:
            return 0.0
        return as_reward(await self._call("final_reward", rate), "final_reward")

    async def close(self) -> None:
        """Close the adapted object; after a call that hangs, without waiting for it."""
        await self._call.close(getattr(self.inner, "close", None))


def check_methods(environment: Any) -> None:
    """Check that an object or a class can be adapted.

    Raises:
        ConfigError: `reset` or `step` is missing, or cannot be called as retrain calls it.
    """
    for method, form in (("reset", "reset(task) or reset(task, seed)"), ("step", "step(action)")):
        function = getattr(environment, method, None)
        if not callable(function):
            raise ConfigError(f"{_name_of(environment)} has no {method}; expected {form}")
        _check_call(environment, method, function, form)


def _check_call(environment: Any, method: str, function: Callable[..., Any], form: str) -> None:
    unbound = inspect.isclass(environment) and not inspect.ismethod(function)
    arguments = (None, None) if unbound else (None,)
    seed = {"seed": 0} if method == "reset" and takes_seed(function) else {}
    try:
        _signature(function).bind(*arguments, **seed)
    except TypeError as error:
        name = f"{_name_of(environment)}.{method}"
        raise ConfigError(f"{name} cannot be called: {error}; expected {form}") from None


def _name_of(environment: Any) -> str:
    cls: type = environment if inspect.isclass(environment) else type(environment)
    return cls.__qualname__


def takes_seed(reset: Callable[..., Any]) -> bool:
    """Whether a `reset` takes a seed by name."""
    parameters = _signature(reset).parameters.values()
    return any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters)


_bound: WeakKeyDictionary[Callable[..., Any], inspect.Signature] = WeakKeyDictionary()
"""Signatures of methods, by their functions: each episode adapts a new object of the same class."""


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """`inspect.signature`, found once for all objects of a class."""
    if not inspect.ismethod(function) or not inspect.isfunction(function.__func__):
        return inspect.signature(function)
    known = _bound.get(function.__func__)
    if known is None:
        known = _bound[function.__func__] = inspect.signature(function)
    return known
