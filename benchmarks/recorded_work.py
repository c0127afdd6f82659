"""Recorded conversations, played against an engine that takes its time.

The environment says how long the next answer is, so the engine reads it off the stream: a turn that
was suspended goes on for as long as it would have.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from timed_engine import Speed, TimedEngine, Wanted

from bridges import (
    EnvironmentBridge,
    EpisodeLimits,
    RewardBridge,
    RolloutBridge,
    RolloutSettings,
)
from retrain.engine.base import SamplingParams
from retrain.environment.base import Environment
from retrain.rendering import DeltaRenderer
from retrain.reward.calculator import RewardCalculator, RewardComponent
from retrain.types import Action, Message, Observation, StepResult, Task, Trajectory

ANSWER = "So far the sum of the numbers is 128, and the one after that makes it a little more. "
UNBOUNDED = 10**9


class Recording:
    """Which conversation each episode follows: drawn by its task, visit and place in the group.

    Args:
        turns: [conversations][turns] tokens of each answer.
        members: G, episodes of a group.
        seed: Of the draws.
    """

    def __init__(self, turns: Sequence[Sequence[int]], members: int, seed: int) -> None:
        self._turns, self._members, self._seed = turns, members, seed
        self._begun: Counter[int] = Counter()

    def draw(self, visit: int) -> Sequence[int]:
        """The next member's conversation; after the last member it is the first one's again.

        Args:
            visit: The environment's seed, which a group has in common.
        """
        member = self._begun[visit] % self._members
        self._begun[visit] += 1
        return random.Random(f"{self._seed} {visit} {member}").choice(self._turns)


def recorded_turns() -> list[list[int]]:
    """The conversations of `recorded_turns.json`, which says where they come from."""
    path = Path(__file__).with_name("recorded_turns.json")
    turns: list[list[int]] = json.loads(path.read_text())["turns"]
    return turns


class Conversation(Environment):
    """Asks for as many tokens as were recorded, turn by turn, and takes its time in between."""

    def __init__(self, recording: Recording, seconds: float) -> None:
        self._recording, self._seconds = recording, seconds
        self._lengths: Sequence[int] = ()
        self._turn = 0

    async def reset(self, task: Task, seed: int) -> Observation:
        """Ask for the first answer."""
        self._lengths = self._recording.draw(seed)
        return Observation((self._ask(),))

    async def step(self, action: Action) -> StepResult:
        """Ask for the next answer, or end."""
        await asyncio.sleep(self._seconds)
        self._turn += 1
        if self._turn == len(self._lengths):
            return StepResult(Observation(), 1.0, terminated=True)
        return StepResult(Observation((self._ask(),)))

    def _ask(self) -> Message:
        return Message("user", f"Go on for {self._lengths[self._turn]} tokens.")


async def long_answers(trajectory: Trajectory) -> float:
    """A reward that differs within a group."""
    return float(sum(len(turn.output_ids) for turn in trajectory.turns))


def make_engine(tokenizer: Any, speed: Speed) -> TimedEngine:
    """The engine, with answers of this vocabulary."""
    answer = tokenizer.encode(ANSWER * 128, add_special_tokens=False)
    return TimedEngine(speed, Wanted(tokenizer), answer, tokenizer.eos_token_id)


def make_bridge(
    renderer: DeltaRenderer,
    engine: TimedEngine,
    recording: Recording,
    *,
    members: int,
    think: float,
    most: int,
) -> RolloutBridge:
    """The bridge that plays groups of recorded conversations.

    Args:
        renderer: Over the engine's vocabulary.
        engine: Writes the answers.
        recording: Says how long they are.
        members: G, episodes of a group.
        think: Seconds that the environment takes for a turn.
        most: Tokens after which an episode is cut.
    """
    limits = EpisodeLimits(most, step_timeout=None, generate_timeout=None)
    calculator = RewardCalculator([RewardComponent("long_answers", "rollout", long_answers)])
    return RolloutBridge(
        EnvironmentBridge(renderer, lambda: Conversation(recording, think), limits),
        RewardBridge(calculator),
        engine,
        RolloutSettings(SamplingParams(UNBOUNDED), n_samples=members, concurrency=UNBOUNDED),
    )
