"""`type: openenv`: an environment that an OpenEnv server runs, over its WebSocket protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from retrain.environment.adapters.openenv_actions import ServerActions, actions_for
from retrain.environment.adapters.openenv_session import ActionRefused, Answer, OpenEnvSession
from retrain.environment.adapters.text import (
    first_prompt,
    numbered_tasks,
    observation_text,
    small_seed,
)
from retrain.environment.base import Environment, ToolSchema
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.types import Action, Message, Observation, StepResult, Task

_KEY = "environment.env_specific_config"
_HIDDEN = ("metadata", "done", "reward")


class OpenEnvEnvironment(Environment):
    """Plays one episode in a session of its own on a server.

    What the model writes becomes an action by the server's schema: the text of its one required
    text field; a call of one of the environment's tools, where it offers tools; else a call of the
    tool `act`, whose arguments are the action's fields. The task's metadata goes along with the
    reset (`split`, `index` …).

    Args:
        base_url: Where the server listens, `http://127.0.0.1:8000`.
        action: Which field of an action holds the model's text; None finds it in the schema.
        observation: Which field of an observation the model reads; None shows all of them.
        system_prompt: A system message before the first observation.
        token_env: The environment variable that holds a bearer token; the token itself stands in
            no configuration.
        connect_timeout: Seconds to wait for a connection.

    Raises:
        ConfigError: `token_env` names a variable that is not set.
        MissingDependency: aiohttp is not installed.
    """

    def __init__(
        self,
        *,
        base_url: str,
        action: str | None = None,
        observation: str | None = None,
        system_prompt: str | None = None,
        token_env: str | None = None,
        connect_timeout: float = 10.0,
    ) -> None:
        self._session = OpenEnvSession(base_url, _headers(token_env), connect_timeout)
        self._field = action
        self._observation = observation
        self._system_prompt = system_prompt
        self._actions: ServerActions | None = None

    @classmethod
    def tasks(cls, *, count: int = 1000) -> list[Task]:
        """Episodes for `prompt_source: {type: environment}`: the server writes the prompts.

        Args:
            count: How many; each has a seed of its own.
        """
        return numbered_tasks(count)

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The environment's tools, or `act`; none where actions are text."""
        return () if self._actions is None else self._actions.tools

    async def reset(self, task: Task, seed: int) -> Observation:
        """Open a session, and begin an episode with the seed."""
        schema = await self._session.schema()
        answer = await self._session.reset({**task.metadata, "seed": small_seed(seed)})
        self._actions = await actions_for(schema, self._field, self._session)
        return first_prompt(task, self._text(answer), self._system_prompt)

    async def step(self, action: Action) -> StepResult:
        """Send what the model wrote, call by call, and give what came back."""
        assert self._actions is not None, "reset comes first"
        if self._actions.tools and action.final:
            return StepResult(Observation(), terminated=True)
        sent = self._actions.read(action)
        if isinstance(sent, str):
            return StepResult(Observation((Message("user", sent),)))
        said, reward, done = [], 0.0, False
        for call, data in sent:
            text = "Error: the episode is over."
            if not done:
                text, earned, done = await self._taken(data)
                reward += earned
            said.append(
                Message("user", text)
                if call is None
                else Message("tool", text, tool_call_id=call.id, name=call.name)
            )
        return StepResult(Observation() if done else Observation(tuple(said)), reward, done)

    async def close(self) -> None:
        """End the session."""
        await self._session.close()

    async def _taken(self, data: Mapping[str, Any]) -> tuple[str, float, bool]:
        """What one action gave: text, reward, and whether the episode is over."""
        try:
            answer = await self._session.step(data)
        except ActionRefused as refused:
            return f"Error: {refused}", 0.0, False
        return self._text(answer), answer.reward or 0.0, answer.done

    def _text(self, answer: Answer) -> str:
        if "tool_name" in answer.observation and self._observation is None:
            return _tool_result(answer.observation)
        return observation_text(answer.observation, self._observation, without=_HIDDEN)


def _tool_result(observation: Mapping[str, Any]) -> str:
    """The result of a tool of the environment's: text where there is some, else JSON.

    Raises:
        EnvironmentFailure: The environment could not reach its tool.
    """
    error, result = observation.get("error"), observation.get("result")
    if isinstance(error, Mapping):
        if error.get("error_type") == "transport_error":
            raise EnvironmentFailure(f"server: {observation['tool_name']}: {error.get('message')}")
        return f"Error: {error.get('message')}"
    if isinstance(result, Mapping) and "content" in result:
        texts = [str(each.get("text", "")) for each in result["content"]]
        result = "\n".join(texts) if result.get("data") is None else result["data"]
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _headers(token_env: str | None) -> dict[str, str]:
    if token_env is None:
        return {}
    token = os.environ.get(token_env)
    if not token:
        raise ConfigError(f"{_KEY}.token_env: the environment variable {token_env} is not set")
    return {"Authorization": f"Bearer {token}"}
