"""OpenEnv servers, started with the package's own server code."""

from __future__ import annotations

import importlib.util
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    text: str


class Told(Observation):
    said: str


class GuessEnvironment(Environment[Guess, Told, State]):
    """Guess a number from 1 to 9."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, name: str = "you", **_: Any) -> Told:
        self.number = random.Random(seed).randint(1, 9)
        return Told(said=f"Which number, {name}?")

    def step(self, action: Guess, **_: Any) -> Told:
        if action.text == "crash":
            raise RuntimeError("the world broke")
        if action.text == str(self.number):
            return Told(said="Right.", reward=1, done=True)
        return Told(said="No.", reward=-0.1)

    @property
    def state(self) -> State:
        return State()


class Move(Action):
    """Move by x and y."""

    x: int
    y: int = 0


class Place(Observation):
    x: int
    y: int


class GridEnvironment(Environment[Move, Place, State]):
    """Go to (3, 1)."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, **_: Any) -> Place:
        self.at = [0, 0]
        return Place(x=0, y=0)

    def step(self, action: Move, **_: Any) -> Place:
        self.at = [self.at[0] + action.x, self.at[1] + action.y]
        done = self.at == [3, 1]
        return Place(x=self.at[0], y=self.at[1], reward=float(done), done=done)

    @property
    def state(self) -> State:
        return State()


class NotesEnvironment(MCPEnvironment):
    """Tools of a FastMCP server."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        server: FastMCP[None] = FastMCP("notes")
        self.notes: list[str] = []

        @server.tool
        def add(text: str) -> str:
            """Write a note.

            Args:
                text: What it says.
            """
            self.notes.append(text)
            return f"{len(self.notes)} notes"

        @server.tool
        def count() -> int:
            """How many notes there are."""
            return len(self.notes)

        super().__init__(server)

    def reset(self, seed: int | None = None, **_: Any) -> Observation:
        self.notes.clear()
        return Observation(metadata={"seed": seed})

    def _step_impl(self, action: Action, **_: Any) -> Observation:
        raise ValueError("only tools")

    @property
    def state(self) -> State:
        return State()


def echo_app(folder: Path) -> Any:
    """The environment that the package's own command writes, `openenv init`."""
    command = [sys.executable, "-m", "openenv.cli", "init", "echo_env", "-o", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    models, world = (
        _imported(folder / "echo_env" / file)
        for file in ("models.py", "server/echo_env_environment.py")
    )
    return create_app(
        world.EchoEnvironment, models.EchoAction, models.EchoObservation, max_concurrent_envs=16
    )


APPS: dict[str, Callable[[], Any]] = {
    "guess": lambda: create_app(GuessEnvironment, Guess, Told, max_concurrent_envs=16),
    "grid": lambda: create_app(GridEnvironment, Move, Place, max_concurrent_envs=16),
    "notes": lambda: create_app(
        NotesEnvironment, CallToolAction, CallToolObservation, max_concurrent_envs=16
    ),
    "narrow": lambda: create_app(GuessEnvironment, Guess, Told, max_concurrent_envs=1),
}


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an application on a free port of the loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(timeout=20)


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
