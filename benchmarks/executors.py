"""What a turn costs where its environment lives: in this process, in worker processes, in Ray.

The same episodes of the calculator, ten turns each with one tool call a turn, are played by
`EnvironmentBridge` on Qwen's vocabulary and chat template under each executor, with an engine that
answers at once. Times are CPU time per turn, of this process and of the worker processes; Ray's own
processes cannot be told apart from others, so for Ray it is this process alone. Start-up is left
out of this process's figure and counts in that of the workers.

    python benchmarks/executors.py [--episodes 200] [--executors local process ray]
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bridge_overhead import load_tokenizer

from bridges import EnvironmentBridge, EpisodeLimits
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import make_environment_factory
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.rollout.executors.base import Executor, LocalExecutor
from retrain.rollout.executors.crew import CrewSettings
from retrain.rollout.executors.making import make_origin
from retrain.rollout.executors.pool import WorkerPool
from retrain.rollout.executors.process import ProcessLauncher
from retrain.rollout.executors.ray_actors import ActorOptions, RayLauncher
from retrain.seeds import EpisodeSeed
from retrain.types import Task

TURNS = 10
CONCURRENCY = 32
TASK = Task("sum", "Add the numbers, one after the other, with the calculator.", label="1")


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time per turn, in seconds.

    Attributes:
        here: Of this process.
        workers: Of the worker processes that it has started and waited for.
    """

    here: float
    workers: float


def make_executor(name: str) -> Executor:
    """An executor of the calculator with two workers."""
    factory = make_environment_factory("calculator", {"max_turns": TURNS})
    if name == "local":
        return LocalExecutor(factory)
    launcher = ProcessLauncher() if name == "process" else RayLauncher(ActorOptions(), workers=2)
    origin = make_origin("calculator", {"max_turns": TURNS})
    return WorkerPool(launcher, origin, CrewSettings(workers=2), factory)


def scripted(tokenizer: Any) -> ScriptedEngine:
    """Calls the calculator in every turn but the last."""
    calls = [
        f'<tool_call>\n{{"name": "calculator", "arguments": {{"expression": "{n} + 1"}}}}\n'
        f"</tool_call>{tokenizer.eos_token}"
        for n in range(TURNS - 1)
    ]
    turns = [*calls, f"1{tokenizer.eos_token}"]
    return ScriptedEngine([tokenizer.encode(turn, add_special_tokens=False) for turn in turns])


async def play(bridge: EnvironmentBridge, engine: ScriptedEngine, episodes: range) -> int:
    """Play episodes, some at a time; gives how many turns there were."""
    room = asyncio.Semaphore(CONCURRENCY)

    async def one(sample: int) -> int:
        async with room:
            params = SamplingParams(max_tokens=100)
            seed = EpisodeSeed(0, "train", TASK.id, 0, sample)
            return len((await bridge.run(TASK, engine=engine, params=params, seed=seed)).turns)

    return sum(await asyncio.gather(*map(one, episodes)))


async def measure(name: str, renderer: DeltaRenderer, tokenizer: Any, episodes: int) -> Cost:
    """Play all episodes under one executor, after some that start its workers."""
    executor, engine = make_executor(name), scripted(tokenizer)
    limits = EpisodeLimits(max_response_len=10_000)
    bridge = EnvironmentBridge(renderer, executor.make, limits)
    children = _children()
    try:
        await play(bridge, engine, range(2 * CONCURRENCY))
        began = time.process_time()
        turns = await play(bridge, engine, range(episodes))
        here = time.process_time() - began
    finally:
        executor.close()
    return Cost(here / turns, (_children() - children) / turns)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print one line an executor."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--executors", nargs="+", default=["local", "process", "ray"])
    args = parser.parse_args(arguments)
    tokenizer = load_tokenizer(None)
    renderer = load_renderer(tokenizer)
    first: Cost | None = None
    for name in args.executors:
        cost = asyncio.run(measure(name, renderer, tokenizer, args.episodes))
        first = first or cost
        workers = f", workers {cost.workers * 1e6:6.0f} us" if name == "process" else ""
        print(
            f"{name:8} {cost.here * 1e6:6.0f} us of this process per turn, "
            f"{cost.here / first.here:.2f} of {args.executors[0]}{workers}"
        )


if __name__ == "__main__":
    main()
