"""A prepared episode: engine and environment answer at once, and a meter runs in between."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from retrain.engine.base import EngineCapabilities, Generation
from retrain.environment import Environment, ToolSchema
from retrain.types import Action, Observation, StepResult, Task


class Meter(Protocol):
    """Measures what happens while neither the engine nor the environment runs."""

    def resume(self) -> None:
        """The engine or the environment has answered."""

    def pause(self) -> None:
        """The engine or the environment is called."""

    def end_turn(self) -> None:
        """The engine is asked for the next turn."""


@dataclass(slots=True)
class TimeMeter:
    """CPU time.

    Attributes:
        turns: Nanoseconds by turn; first stands what comes before the first turn.
    """

    turns: list[int] = field(default_factory=list)
    _spent: int = 0
    _began: int = field(default_factory=time.process_time_ns)

    def resume(self) -> None:
        """Start the clock."""
        self._began = time.process_time_ns()

    def pause(self) -> None:
        """Stop the clock."""
        self._spent += time.process_time_ns() - self._began

    def end_turn(self) -> None:
        """Note the turn."""
        self.turns.append(self._spent)
        self._spent = 0


@dataclass(slots=True)
class MemoryMeter:
    """Memory, while tracemalloc traces; garbage is collected before what stays is counted.

    Attributes:
        turns: By turn, the bytes that stay and the most that were in use at a time.
    """

    turns: list[tuple[int, int]] = field(default_factory=list)
    _kept: int = 0
    _peak: int = 0
    _before: int = 0

    def resume(self) -> None:
        """Note what is in use."""
        tracemalloc.reset_peak()
        self._before, _ = tracemalloc.get_traced_memory()

    def pause(self) -> None:
        """Add what has come on top of it."""
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        now, _ = tracemalloc.get_traced_memory()
        self._peak = max(self._peak, self._kept + peak - self._before)
        self._kept += now - self._before

    def end_turn(self) -> None:
        """Note the turn."""
        self.turns.append((self._kept, self._peak))
        self._kept = self._peak = 0


@dataclass(slots=True)
class Script:
    """One prepared episode: both sides answer at once, and tell the meter when they do."""

    generations: Sequence[Generation]
    results: Sequence[StepResult]
    meter: Meter
    turn: int = 0


class PreparedEngine:
    """Writes the script's turns."""

    capabilities = EngineCapabilities(seeded=True)

    def __init__(self, script: Script) -> None:
        self._script = script

    async def generate(self, input_ids: Any, params: Any, **_: Any) -> Generation:
        """The turn's generation, after the event loop has gone round as with a real engine."""
        script = self._script
        script.meter.pause()
        script.meter.end_turn()
        await asyncio.sleep(0)
        generation = script.generations[script.turn]
        script.meter.resume()
        return generation

    async def abort(self, session_id: str) -> None:
        """Nothing runs that could be ended."""

    async def release(self, session_id: str) -> None:
        """Nothing is kept that could be freed."""


class PreparedEnvironment(Environment):
    """Gives the script's replies."""

    def __init__(self, script: Script, tool: ToolSchema) -> None:
        self._script = script
        self._tools = (tool,)

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The script's one tool."""
        return self._tools

    async def reset(self, task: Task, seed: int) -> Observation:
        """The task's messages."""
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        """The turn's result."""
        script = self._script
        script.meter.pause()
        result = script.results[script.turn]
        script.turn += 1
        script.meter.resume()
        return result
