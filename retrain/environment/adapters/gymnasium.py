"""`type: gymnasium`: environments with Gymnasium's five-tuple, read and played as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, ClassVar

from retrain.environment.adapters.actions import NumberedActions, TextActions, actions_of
from retrain.environment.adapters.loading import require
from retrain.environment.adapters.own_random import OwnRandom
from retrain.environment.adapters.text import (
    first_prompt,
    numbered_tasks,
    observation_text,
    reply,
    small_seed,
)
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.registry import allow_working_directory, load_object
from retrain.types import Action, Observation, StepResult, Task

_KEY = "environment.env_specific_config"
_RENDER = "render"
_TUPLE = "(observation, reward, terminated, truncated, info)"


class GymnasiumEnvironment:
    """Plays one episode of an environment with `reset(seed=…)` and `step(action)`.

    The prompt is the task's, where it has one, and the first observation. An action that cannot be
    read in what the model wrote is answered with what is expected, and the environment stays as it
    was.

    Args:
        id: A registered name (`FrozenLake-v1`, `my_package:MyGame-v0`), or the import path of a
            class or function that makes the environment (`my_module:MyGame`).
        arguments: Its keyword arguments.
        observation: Which entry of a dictionary the model reads, `render` for the text that
            `render()` returns; None for the observation itself.
        actions: Names of the actions of a `Discrete` space, in order; without them the model writes
            their numbers.
        system_prompt: A system message before the first observation.
        own_random: Whether `random` and `numpy.random` are seeded for, and kept apart between,
            episodes; such episodes run one call at a time in a process.

    Raises:
        MissingDependency: The package that makes it is not installed.
    """

    package: ClassVar[str] = "gymnasium"
    install: ClassVar[str] = "retrain[gymnasium]"
    by_path: ClassVar[bool] = True

    def __init__(
        self,
        *,
        id: str,
        arguments: Mapping[str, Any] | None = None,
        observation: str | None = None,
        actions: Sequence[str] = (),
        system_prompt: str | None = None,
        own_random: bool = False,
    ) -> None:
        self._id = id
        self._arguments = dict(arguments or {})
        self._observation = observation
        self._names = tuple(actions)
        self._system_prompt = system_prompt
        self._isolated = own_random
        self._random: OwnRandom | None = None
        self._actions: TextActions | NumberedActions = TextActions()
        self.env: Any = None
        if not self._is_path():
            require(self.package, f"environment {self.package}", self.install)

    @classmethod
    def tasks(cls, *, count: int = 1000) -> list[Task]:
        """Episodes for `prompt_source: {type: environment}`: the environment writes the prompts.

        Args:
            count: How many; each has a seed of its own.
        """
        return numbered_tasks(count)

    def reset(self, task: Task, seed: int) -> Observation:
        """Make the environment, and begin an episode with the seed."""
        make = self._maker()
        self._random = OwnRandom(small_seed(seed)) if self._isolated else None
        with self._own_random():
            self.env = make(**self._arguments)
            came = self.env.reset(seed=small_seed(seed))
        self._actions = self._read_space()
        observation, info = came if isinstance(came, tuple) and len(came) == 2 else (came, {})
        return first_prompt(task, self._text(observation, info), self._system_prompt)

    def step(self, action: Action) -> StepResult:
        """Take the action that the model wrote."""
        chosen = self._actions.read(action.text)
        if chosen is None:
            return StepResult(
                reply(f"No action could be read. Answer with {self._actions.expected}.")
            )
        with self._own_random():
            came = self.env.step(chosen)
        if not isinstance(came, tuple) or len(came) != 5:
            raise EnvironmentFailure(f"{self._id}: step returned {came!r:.80}; expected {_TUPLE}")
        observation, reward, terminated, truncated, info = came
        over = bool(terminated) or bool(truncated)
        said = Observation() if over else reply(self._text(observation, info))
        return StepResult(said, reward, terminated, truncated, info)

    def close(self) -> None:
        """Close the environment, where it was made and can be closed."""
        close = getattr(self.env, "close", None)
        if close is not None:
            close()

    def _is_path(self) -> bool:
        """Whether the id is `module:Class`; the names of Gymnasium end with a version, `-v0`."""
        module, colon, name = self._id.partition(":")
        parts = (*module.split("."), *name.split("."))
        return self.by_path and bool(colon) and all(part.isidentifier() for part in parts)

    def _maker(self) -> Any:
        if self._is_path():
            allow_working_directory()
            return load_object(self._id, f"{_KEY}.id {self._id!r}")
        return self._registered()

    def _registered(self) -> Any:
        """What makes the environment of a registered name."""
        library = import_module(self.package)

        def make(**arguments: Any) -> Any:
            return library.make(self._id, **arguments)

        return make

    def _own_random(self) -> AbstractContextManager[None]:
        return nullcontext() if self._random is None else self._random.in_place()

    def _read_space(self) -> TextActions | NumberedActions:
        try:
            return actions_of(getattr(self.env, "action_space", None), self._names)
        except ValueError as error:
            raise ConfigError(f"{_KEY}.actions: {self._id}: {error}") from None

    def _text(self, observation: Any, info: Any) -> str:
        if self._observation != _RENDER:
            return observation_text(observation, self._observation)
        drawn = self.env.render()
        if isinstance(drawn, str):
            return drawn
        raise ConfigError(
            f"{_KEY}.observation: render() of {self._id} returns {type(drawn).__name__}, not text; "
            "give arguments: {render_mode: ansi}, if it has such a mode"
        )
