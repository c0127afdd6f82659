"""The worlds and rewards of the fuzz: they break, end, cut and answer by what the model wrote."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from fuzz_texts import odd_text

from retrain.environment.base import Environment, ToolSchema
from retrain.seeds import derive_seed
from retrain.types import Action, Message, Observation, StepResult, Task, Trajectory

TOOLS: tuple[ToolSchema, ...] = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Do {name}.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
        },
    }
    for name in ("lookup", "count")
)
_REWARDS = (0.0, 1.0, -1.0, 0.1, 1 / 3, 1e6, -1e-9, 12345.678)


class FuzzWorld(Environment):
    """Every choice follows from the seed and from what the model wrote, so a replay repeats it.

    One reset in 50, one step in 30 and one closing in 200 break.
    """

    def __init__(self, *, tools: bool = False, patience: float = 0.25) -> None:
        """Make a world.

        Args:
            tools: Whether it offers tools.
            patience: The chance that a step ends the episode.
        """
        self._tools = TOOLS if tools else ()
        self._patience = patience
        self._seed = 0
        self._turn = 0

    @property
    def tools(self) -> Sequence[ToolSchema]:
        return self._tools

    async def reset(self, task: Task, seed: int) -> Observation:
        self._seed, rng = seed, random.Random(seed)
        if rng.random() < 0.02:
            raise OSError("the world is closed")
        system = (Message("system", odd_text(rng)),) if rng.random() < 0.4 else ()
        return Observation((*system, *task.messages))

    async def step(self, action: Action) -> StepResult:
        self._turn += 1
        written = [f"{call.name} {sorted(call.arguments.items())}" for call in action.tool_calls]
        said = (action.text, action.reasoning, *written, action.parse_error or "")
        rng = random.Random(derive_seed("fuzz", self._seed, self._turn, *said))
        if rng.random() < 1 / 30:
            raise RuntimeError("the world broke")
        reward, end = rng.choice(_REWARDS) * rng.choice((1.0, rng.random())), rng.random()
        if end < self._patience:
            return StepResult(Observation(), reward, terminated=True)
        if end < self._patience + 0.03:
            return StepResult(Observation(), reward, truncated=True)
        return StepResult(Observation(_reply(action, rng)), reward)

    async def final_reward(self) -> float:
        rng = random.Random(derive_seed("final", self._seed, self._turn))
        return rng.choice((0.0, 0.0, 0.5))

    async def close(self) -> None:
        if derive_seed("close", self._seed, self._turn) % 200 == 0:
            raise OSError("the world does not close")


class RewritingWorld(FuzzWorld):
    """A world that at times gives the whole history: shortened, changed, or as it was."""

    rewrites_history = True

    async def reset(self, task: Task, seed: int) -> Observation:
        observation = await super().reset(task, seed)
        self._said = observation.messages
        return observation

    async def step(self, action: Action) -> StepResult:
        result = await super().step(action)
        reply = result.observation.messages
        rng = random.Random(derive_seed("rewrite", self._seed, self._turn, action.text))
        kind = rng.random()
        if not reply or kind < 0.5:
            self._said = (*self._said, action.message, *reply)
            return result
        if kind < 0.8:
            self._said = (*self._said[:1], Message("user", f"Where we are: {odd_text(rng)}"))
        else:
            self._said = (*self._said, action.message, *reply)
        return result._replace(observation=Observation(self._said, rewrite=True))


def _reply(action: Action, rng: random.Random) -> tuple[Message, ...]:
    """A result for every call, at times a user's word behind them; else the user speaks."""
    said = Message("user", odd_text(rng))
    if not action.tool_calls:
        return (said,)
    results = tuple(Message("tool", odd_text(rng), name=call.name) for call in action.tool_calls)
    return (*results, said) if rng.random() < 0.3 else results


def odd_reward(trajectory: Trajectory) -> float:
    """A reward from the episode's name alone; one in 25 raises, one in 25 is no number."""
    seed = trajectory.seed
    rng = random.Random(derive_seed("reward", seed.task_id, seed.visit, seed.sample_index))
    fate = rng.random()
    if fate < 0.04:
        raise ArithmeticError("the reward broke")
    if fate < 0.08:
        return math.nan
    return rng.choice(_REWARDS) if fate < 0.6 else rng.gauss(0.0, 1.0)
