"""`type: skyrl_gym`: environments of SkyRL-gym, `init(prompt)` and `step(text)`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from retrain.environment.adapters.chat import as_chat, raw_text
from retrain.environment.adapters.loading import require
from retrain.environment.messages import as_message
from retrain.environment.replies import as_first_observation
from retrain.errors import EnvironmentFailure
from retrain.registry import allow_working_directory, load_object
from retrain.types import Action, Observation, StepResult, Task

_KEY = "environment.env_specific_config"
_FIELDS = ("observations", "reward", "done")


class SkyRLGymEnvironment:
    """Plays one episode of a `BaseTextEnv`.

    As SkyRL does, it is made with `env_config` and `extras`, the columns of the row: everything in
    the task's metadata, and `max_turns`. A task with a label and without a `reward_spec` gives
    `{"method": "rule", "ground_truth": label}` as one. `step` gets all that the model wrote, its
    reasoning in `<think>` tags; what it gives as `postprocessed_action` changes no token.

    Args:
        id: A registered name (`gsm8k`, `text2sql`, `search`), or the import path of a class
            (`my_module:MyEnv`).
        env_config: What SkyRL's `skyrl_gym.ID` section holds.
        max_turns: Most turns; the environment's own where it is None.

    Raises:
        MissingDependency: SkyRL-gym is not installed.
    """

    def __init__(
        self, *, id: str, env_config: Mapping[str, Any] | None = None, max_turns: int | None = None
    ) -> None:
        require("skyrl_gym", "environment skyrl_gym", "retrain[skyrl-gym]")
        self._id = id
        self._env_config = dict(env_config or {})
        self._max_turns = max_turns
        self.env: Any = None

    def reset(self, task: Task) -> Observation:
        """Make the environment with the task's columns, and ask it for the prompt."""
        self.env = self._made(self._extras(task))
        came = self.env.init(as_chat(task.messages))
        prompt = came[0] if isinstance(came, tuple) else came
        return as_first_observation(prompt)

    def step(self, action: Action) -> StepResult:
        """Give it what the model wrote."""
        came = self.env.step(raw_text(action))
        missing = [name for name in _FIELDS if not isinstance(came, Mapping) or name not in came]
        if missing:
            raise EnvironmentFailure(
                f"{self._id}: step returned {came!r:.60} without {', '.join(missing)}; expected a "
                "BaseTextEnvStepOutput"
            )
        done = bool(came["done"])
        info = dict(came.get("metadata") or {})
        if done:
            return StepResult(Observation(), came["reward"], True, False, info | self._metrics())
        said = tuple(as_message(message) for message in came["observations"])
        return StepResult(Observation(said), came["reward"], info=info)

    def close(self) -> None:
        """Close the environment, where it was made."""
        if self.env is not None:
            self.env.close()

    def _extras(self, task: Task) -> dict[str, Any]:
        extras = copy.deepcopy(dict(task.metadata))
        if task.label is not None:
            extras.setdefault("reward_spec", {"method": "rule", "ground_truth": task.label})
        if self._max_turns is not None:
            extras["max_turns"] = self._max_turns
        return extras

    def _made(self, extras: dict[str, Any]) -> Any:
        config = copy.deepcopy(self._env_config)
        if ":" in self._id:
            allow_working_directory()
            make: Any = load_object(self._id, f"{_KEY}.id {self._id!r}")
            return make(env_config=config, extras=extras)
        return import_module("skyrl_gym").make(self._id, env_config=config, extras=extras)

    def _metrics(self) -> dict[str, Any]:
        measure = getattr(self.env, "get_metrics", None)
        return dict(measure()) if measure is not None else {}
