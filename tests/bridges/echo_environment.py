from __future__ import annotations

import itertools
from collections.abc import Sequence

from retrain.engine.base import SamplingParams
from retrain.environment.base import Environment
from retrain.seeds import EpisodeSeed
from retrain.types import Action, Message, Observation, StepResult, Task

SEED = EpisodeSeed(run=7, split="train", task_id="t", visit=0, sample_index=0)
PARAMS = SamplingParams(max_tokens=10_000)


class Echo(Environment):
    """Answers `replies` in turn, then ends; records what it was asked."""

    def __init__(self, replies: Sequence[str] = (), rewards: Sequence[float] = ()) -> None:
        self.replies = list(replies)
        self.rewards = [*rewards, *itertools.repeat(0.0, len(replies) + 1 - len(rewards))]
        self.actions: list[Action] = []
        self.seeds: list[int] = []
        self.closed = 0

    async def reset(self, task: Task, seed: int) -> Observation:
        self.seeds.append(seed)
        return Observation(task.messages)

    async def step(self, action: Action) -> StepResult:
        self.actions.append(action)
        position = len(self.actions) - 1
        over = position >= len(self.replies)
        reply = () if over else (Message("user", self.replies[position]),)
        return StepResult(
            Observation(reply), self.rewards[position], terminated=over, info={"turn": position}
        )

    async def close(self) -> None:
        self.closed += 1
