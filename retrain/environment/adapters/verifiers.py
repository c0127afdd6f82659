"""`type: verifiers`: environments of verifiers v1, which play their episodes themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any

from retrain.environment.adapters.loading import require
from retrain.environment.adapters.model_calls import TOKEN_HEADER, ModelCall, ModelCalls
from retrain.environment.adapters.retold import Retold
from retrain.environment.base import Environment, ToolSchema
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.types import Action, Observation, StepResult, Task

_INDEX = "verifiers"


class VerifiersEnvironment(Environment):
    """Lets verifiers play an episode, and gives it the turns that the engine samples.

    Its harness calls the model at an endpoint of this episode. The first call's messages are the
    prompt; those of a later call are the reply, where they only add to what was said, and else a
    history of its own, a new segment. What is trained is what the engine saw and wrote: nothing is
    taken from the texts that come back. The episode's end gives the reward of its trace.

    Args:
        env: verifiers' own `[env]` block: `{taskset: {id: …}, agent: {harness: …, runtime: …}}`.
        rewrites: Whether its harness may tell another history than what was said, as one does that
            sums up or has several agents; a backend that takes one stream an episode refuses that.

    Raises:
        MissingDependency: verifiers or aiohttp is not installed.
    """

    def __init__(self, *, env: Mapping[str, Any], rewrites: bool = False) -> None:
        _require()
        self._rewrites = rewrites
        self._block = json.dumps(env, sort_keys=True)
        self._calls = ModelCalls()
        self._retold = Retold()
        self._waiting: ModelCall | None = None
        self._playing: asyncio.Task[Any] | None = None
        self._tools: Sequence[ToolSchema] = ()

    @classmethod
    def tasks(cls, *, env: Mapping[str, Any], count: int = 1000) -> list[Task]:
        """The task set's tasks, for `prompt_source: {type: environment}`.

        Args:
            env: The same block.
            count: Most of them; a task set may have no end.
        """
        _require()
        loaded = _loaded(json.dumps(env, sort_keys=True), count)
        taskset = env["taskset"]["id"]
        return [
            Task(f"{taskset}-{number}", "", metadata={_INDEX: number, "count": count})
            for number in range(len(loaded))
        ]

    @property
    def rewrites_history(self) -> bool:
        """Whether a later call may tell another history."""
        return self._rewrites

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The tools that the last call offered."""
        return self._tools

    async def reset(self, task: Task, seed: int) -> Observation:
        """Start the episode, and wait for its first call."""
        if _INDEX not in task.metadata:
            raise EnvironmentFailure(
                f"task {task.id!r} is none of verifiers: use prompt_source: {{type: environment}}"
            )
        index, count = int(task.metadata[_INDEX]), int(task.metadata["count"])
        asked = (await asyncio.to_thread(_loaded, self._block, count))[index]
        await self._calls.open()
        self._playing = asyncio.create_task(self._play(asked))
        said = await self._next()
        if isinstance(said, StepResult):
            raise EnvironmentFailure(f"task {task.id!r}: the episode ended without a call")
        return said

    async def step(self, action: Action) -> StepResult:
        """Give the turn to whom it was asked for, and wait for the next call or the end."""
        assert self._waiting is not None, "reset comes first"
        finish = "tool_calls" if action.tool_calls else "length" if action.truncated else "stop"
        self._waiting.answer.set_result((self._retold.answer(action), finish))
        said = await self._next()
        return said if isinstance(said, StepResult) else StepResult(said)

    async def close(self) -> None:
        """Break off an episode that still plays, and close its endpoint."""
        if self._playing is not None and not self._playing.done():
            self._playing.cancel()
            await asyncio.wait([self._playing])
        await self._calls.close()

    async def _play(self, task: Any) -> Any:
        """The whole episode, as verifiers' own runners play it."""
        world, context = await asyncio.to_thread(self._made)
        async with world.serving():
            return await world.run_episode(task, context)

    def _made(self) -> tuple[Any, Any]:
        """The environment, and the model that it asks: this episode's endpoint."""
        loaders = import_module("verifiers.v1.utils.loaders")
        client = import_module("verifiers.v1.configs.client").EvalClientConfig(
            base_url=f"{self._calls.url}/v1",
            api_key_var="RETRAIN_NO_KEY",
            headers={TOKEN_HEADER: self._calls.token},
        )
        world = loaders.load_environment(loaders.resolve_env_config(json.loads(self._block)))
        context = import_module("verifiers.v1.clients.client").ModelContext("policy", client)
        return world, context

    async def _next(self) -> Observation | StepResult:
        """What the next call says, or the result of the episode."""
        assert self._playing is not None
        arriving = asyncio.create_task(self._calls.next())
        try:
            await asyncio.wait([arriving, self._playing], return_when=asyncio.FIRST_COMPLETED)
            if not arriving.done():
                return _result(self._playing.result(), self._calls.url)
        finally:
            arriving.cancel()
        self._waiting = arriving.result()
        self._tools = tuple(self._waiting.tools)
        told = self._retold.observe(self._waiting.messages)
        if told.rewrite and not self._rewrites:
            raise EnvironmentFailure(
                "verifiers: the harness told another history than what was said; set "
                "env_specific_config.rewrites: true, and use a backend that takes several segments"
            )
        return told


def _result(episode: Any, url: str) -> StepResult:
    """The reward of a finished episode: the mean over its trained agents.

    Raises:
        EnvironmentFailure: Something in it failed, or an agent that is not trained asked at `url`.
    """
    errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    if errors or not episode.ok:
        why = f"{errors[0].type}: {errors[0].message}" if errors else "no reason is given"
        raise EnvironmentFailure(f"verifiers: {why}")
    for trace in episode.traces:
        if not trace.agent.trainable and str(trace.agent.config.client.base_url).startswith(url):
            raise EnvironmentFailure(
                f"verifiers: {trace.agent.name} is not trained, and asks the model that is; give "
                "it a client of its own in env_specific_config.env"
            )
    trained = [trace for trace in episode.traces if trace.agent.trainable]
    reward = sum(float(trace.reward) for trace in trained) / max(len(trained), 1)
    metrics = {name: value for trace in trained for name, value in trace.metrics.items()}
    parts = {f"reward_{name}": part.score for t in trained for name, part in t.rewards.items()}
    return StepResult(Observation(), reward, True, False, {**metrics, **parts})


def _require() -> None:
    require("verifiers", "environment verifiers", "verifiers>=0.4")


@lru_cache(maxsize=8)
def _loaded(block: str, count: int) -> tuple[Any, ...]:
    """The first tasks of the task set of an `[env]` block."""
    loaders = import_module("verifiers.v1.utils.loaders")
    try:
        config = loaders.resolve_env_config(json.loads(block))
        taskset = loaders.load_taskset(config.taskset)
    except (ValueError, TypeError, ImportError, AttributeError) as error:
        raise ConfigError(
            f"environment.env_specific_config.env: {type(error).__name__}: {error}"
        ) from error
    return tuple(islice(taskset, count))
