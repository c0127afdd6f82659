"""Environments that workers import by path: well-behaved ones, and some that take workers down."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from retrain.environment import ToolEnvironment, tool
from retrain.environment.base import Environment
from retrain.types import Action, Message, Observation, StepResult, Task

WORDS = ("yes", "no", " 42", "é🙂漢", "\n", "<|im_end|>", "tab\t", "\u2028")


class SteadyWorld(Environment):
    """Replies by its seed; fails now and then, by its seed too."""

    def __init__(self, *, pause: float = 0.0, fails: float = 0.0) -> None:
        self._pause = pause
        self._fails = fails

    async def reset(self, task: Task, seed: int) -> Observation:
        self._random = random.Random(seed)
        if self._random.random() < self._fails:
            raise LookupError("no such world")
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        await asyncio.sleep(self._pause * self._random.random())
        reward = self._random.random() + len(action.text) / 997
        info = {"length": len(action.text), "words": [*WORDS], "nested": {"π": 3.14}}
        if self._random.random() < self._fails:
            raise ArithmeticError("the world broke")
        if self._random.random() < 0.3:
            return StepResult(Observation(), reward, terminated=True, info=info)
        reply = "say " + "".join(self._random.choices(WORDS, k=3)) + " end"
        return StepResult(Observation((Message("user", reply),)), reward, info=info)

    async def final_reward(self) -> float:
        return self._random.random()


class BlockingWorld:
    """Not an `Environment`, and synchronous; answers in the forms that `adapt` reads."""

    def reset(self, task: Task) -> str:
        self.turns = 0
        return str(task.prompt)

    def step(self, action: Action) -> tuple[str, int, bool, bool, dict[str, Any]]:
        time.sleep(0.01)
        self.turns += 1
        return f"turn {self.turns}", self.turns, self.turns == 3, False, {"at": (1, 2)}


class Counters(ToolEnvironment):
    """Tools, one of which appears only after the first turn."""

    @tool
    def count(self, text: str) -> int:
        """Count letters.

        Args:
            text: What to count.
        """
        return len(text)

    async def score(self, action: Action) -> float:
        return len(action.text) / 10


class Marked(SteadyWorld):
    """Does what the task's prompt says, once its worker has been told by a file to do it."""

    async def step(self, action: Action) -> StepResult:
        do = getattr(self, f"_{self.word}", None)
        if do is not None:
            do()
        return await super().step(action)

    async def reset(self, task: Task, seed: int) -> Observation:
        self.word = str(task.prompt).split()[0]
        return await super().reset(task, seed)

    def _dies(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _exits(self) -> None:
        os._exit(7)

    def _holds(self) -> None:
        ctypes.PyDLL(None).sleep(1000)  # keeps the interpreter's lock

    def _blocks(self) -> None:
        time.sleep(1000)


class Sleeper:
    """Synchronous; hangs in its own thread where the prompt says so."""

    def reset(self, task: Task) -> str:
        self._hangs = str(task.prompt).startswith("hangs")
        return str(task.prompt)

    def step(self, action: Action) -> StepResult:
        time.sleep(1000 if self._hangs else 0.05)
        return StepResult(Observation(), 1.0, terminated=True)


class Spawner(SteadyWorld):
    """Starts a process of its own, and never ends it."""

    async def reset(self, task: Task, seed: int) -> Observation:
        program = [sys.executable, "-c", "import time; time.sleep(1000)"]
        self.child = subprocess.Popen(program)
        return await super().reset(task, seed)

    async def step(self, action: Action) -> StepResult:
        if action.text == "block":
            time.sleep(1000)
        pids = f"{os.getpid()} {self.child.pid}"
        return StepResult(Observation((Message("user", pids),)), info={"pids": pids})

    async def close(self) -> None:
        if mark := os.environ.get("CLOSED_MARK"):
            Path(mark).touch()


class Broken(SteadyWorld):
    """Its constructor fails."""

    def __init__(self) -> None:
        raise ValueError("no display")


class Doomed(SteadyWorld):
    """Its constructor takes the worker down."""

    def __init__(self) -> None:
        os._exit(3)


class Open(SteadyWorld):
    """Has state that reward functions read."""

    limit = 7

    def __init__(self) -> None:
        super().__init__()
        self.log: list[dict[str, Any]] = []
        self.socket = object()

    async def step(self, action: Action) -> StepResult:
        self.log.append({"said": len(action.text)})
        return StepResult(Observation(), terminated=True)

    async def close(self) -> None:
        self.closed = True

    @property
    def success(self) -> bool:
        return len(self.log) == 1

    @property
    def fragile(self) -> bool:
        raise OSError("gone")

    def total(self) -> int:
        return len(self.log)


class Counting(Environment):
    """Counts its steps, ends after four of them, and writes its state down."""

    def __init__(self) -> None:
        self.count = self.seed = 0

    async def reset(self, task: Task, seed: int) -> Observation:
        self.seed = seed
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self.count += 1
        text = f"step {self.count}: {random.Random(self.seed + self.count).randrange(1000)}"
        over = self.count == 4
        return StepResult(Observation((Message("user", text),)), float(self.count), over)

    async def snapshot(self) -> Any:
        return {"count": self.count, "seed": self.seed}

    async def restore(self, task: Task, snapshot: Any) -> None:
        self.count, self.seed = snapshot["count"], snapshot["seed"]


class Repeatable(Counting):
    """Repeats itself, and offers no snapshot."""

    replayable = True

    async def snapshot(self) -> Any:
        return None
