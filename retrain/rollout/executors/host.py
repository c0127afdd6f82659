"""The worker's side: many environments on one event loop, called by messages."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from retrain.environment.registry import EnvironmentFactory, make_environment_factory
from retrain.environment.synchronous import AdaptedEnvironment, adapt
from retrain.environment.tool_methods import ToolMethodsEnvironment
from retrain.errors import EnvironmentFailure, RetrainError, boundary
from retrain.rollout.executors.base import DECLARED
from retrain.rollout.executors.faults import describe_fault
from retrain.rollout.executors.wire import decode, encode, plain, read
from retrain.rollout.executors.world import capture
from retrain.types import Action, Task

_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class _Seated:
    """One environment.

    Attributes:
        environment: It.
        tools: Its tools as they were last sent.
    """

    environment: AdaptedEnvironment
    tools: Any = field(default=None)

    def news(self) -> dict[str, Any]:
        """What the other side must know after a call: the tools, where they have changed."""
        tools = plain(tuple(self.environment.tools), "tools")
        if tools == self.tools:
            return {}
        self.tools = tools
        return {"tools": tools}


class EnvironmentHost:
    """Makes environments and calls them, as the messages of an executor ask.

    A message names a call (`begin`, `make`, `discover`, `reset`, `step`, `final_reward`,
    `snapshot`, `restore`, `close`, `linger`, `cancel`), the session that it belongs to, and what
    the call takes.
    """

    def __init__(self) -> None:
        self._factory: EnvironmentFactory | None = None
        self._seated: dict[int, _Seated] = {}
        self._closing: dict[int, AdaptedEnvironment] = {}
        self._running: dict[int, asyncio.Task[dict[str, Any]]] = {}

    async def serve(self, number: int, message: bytes) -> bytes:
        """Answer one message.

        Args:
            number: The message's number; `cancel` names another message by it.
            message: What `wire.encode` made.

        Returns:
            {"result": …} or {"fault": …}, encoded; {} where the call was broken off.
        """
        asked = decode(message)
        call = asyncio.ensure_future(self._call(asked))
        self._running[number] = call
        try:
            return encode({"result": await call})
        except RetrainError as error:
            return encode({"fault": describe_fault(error)})
        except asyncio.CancelledError:
            running = asyncio.current_task()
            if running is not None and running.cancelling():
                raise
            return encode({})
        finally:
            del self._running[number]

    async def close(self) -> None:
        """Close every environment that is still open; what one of them raises is left."""
        environments = [seated.environment for seated in self._seated.values()]
        self._seated.clear()
        closing = (environment.close() for environment in environments)
        await asyncio.gather(*closing, return_exceptions=True)

    async def _call(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        name = asked["call"]
        async with boundary(EnvironmentFailure, name):
            result: dict[str, Any] = await getattr(self, f"_{name}")(asked)
            return result

    async def _begin(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        import_from(asked["path"])
        self._factory = make_environment_factory(asked["type"], asked["config"])
        return {"process": os.getpid()}

    async def _make(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self._factory is None:
            raise EnvironmentFailure("make: the worker was told to make before it was told what")
        async with boundary(EnvironmentFailure, "environment constructor"):
            environment = adapt(self._factory())
        seated = self._seated[asked["session"]] = _Seated(environment)
        declared = {name: bool(getattr(environment, name)) for name in DECLARED}
        return {"declared": declared, **(await _first_news(seated))}

    async def _discover(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        environment = self._seated[asked["session"]].environment
        return {"discovered": plain(tuple(await environment.discover_tools()), "tools")}

    async def _reset(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        seated = self._seated[asked["session"]]
        task = read(Task, asked["task"])
        observation = await seated.environment.reset(task, asked["seed"])
        return {"observation": plain(observation, "observation"), **seated.news()}

    async def _step(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        seated = self._seated[asked["session"]]
        result = await seated.environment.step(read(Action, asked["action"]))
        return {"step": plain(result, "step"), **seated.news()}

    async def _final_reward(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"reward": await self._seated[asked["session"]].environment.final_reward()}

    async def _snapshot(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        snapshot = await self._seated[asked["session"]].environment.snapshot()
        return {"snapshot": plain(snapshot, "snapshot", types=False)}

    async def _restore(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        seated = self._seated[asked["session"]]
        await seated.environment.restore(read(Task, asked["task"]), asked["snapshot"])
        return seated.news()

    async def _close(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Close an environment; `busy` where a call that was broken off still runs in it."""
        session = asked["session"]
        seated = self._seated.pop(session, None)
        if seated is None:  # its constructor failed
            return {"world": None, "busy": False}
        environment = seated.environment
        self._closing[session] = environment
        await environment.close()
        world = capture(environment.world) if asked["world"] else None
        busy = _still_runs(environment)
        if not busy:
            del self._closing[session]
        return {"world": world, "busy": busy}

    async def _linger(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Wait until nothing runs any more in an environment that was closed."""
        environment = self._closing.get(asked["session"])
        while environment is not None and _still_runs(environment):
            await asyncio.sleep(_LOOK_SECONDS)
        self._closing.pop(asked["session"], None)
        return {}

    async def _cancel(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Break a call off and wait until it has let go."""
        call = self._running.get(asked["target"])
        if call is not None:
            call.cancel()
            await asyncio.wait({call})
        return {}


async def _first_news(seated: _Seated) -> dict[str, Any]:
    """The tools before `reset`; an environment may know them only afterwards."""
    try:
        async with boundary(EnvironmentFailure, "tools"):
            return seated.news()
    except EnvironmentFailure:
        return {}


def _still_runs(environment: AdaptedEnvironment) -> bool:
    """Whether a call that was broken off goes on in a thread."""
    inner = environment.inner
    return environment.busy or (isinstance(inner, ToolMethodsEnvironment) and inner.busy)


def import_from(path: Sequence[str]) -> None:
    """Import from where another process does too, after where this one does."""
    sys.path += [folder for folder in path if folder not in sys.path and os.path.isdir(folder)]
