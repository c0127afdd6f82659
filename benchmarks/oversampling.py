"""What over-sampling, the partial cache and an asynchronous run gain, and what they throw away.

Recorded conversations of several turns are played by `EnvironmentBridge` for a `RolloutManager`, on
an engine with continuous batching whose time is a virtual clock's: nothing here depends on the
machine. Every way of filling a batch plays the same tasks, and every run accounts for each drawn
task and each written token. Training takes time in proportion to its tokens; the first way is
measured with it as well, so that ratios are of whole runs.

    python benchmarks/oversampling.py [--groups 16] [--members 8] [--batches 12] [--seeds 5]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bridge_overhead import load_tokenizer
from filled_batches import Loop, Run, Way, account, written
from recorded_work import Recording, make_bridge, make_engine, recorded_turns
from timed_engine import Speed

from retrain.rendering import load_renderer
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.types import Task


class Bench:
    """A workload.

    Args:
        args: The command line.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.tokenizer = load_tokenizer(args.tokenizer)
        self.renderer = load_renderer(self.tokenizer)
        self.turns = recorded_turns()
        self.tasks = [Task(f"task-{n}", "unused") for n in range(64 * args.groups)]

    def play(self, way: Way, seed: int, training: float) -> Run:
        """Play all batches of one run.

        Args:
            way: How they are filled.
            seed: Of the order of tasks and of the conversations.
            training: Seconds of training for each token.
        """
        return on_virtual_clock(self._play(way, seed, training))

    async def _play(self, way: Way, seed: int, training: float) -> Run:
        args = self.args
        engine = make_engine(self.tokenizer, Speed(running=args.running))
        recording = Recording(self.turns, args.members, seed)
        bridge = make_bridge(
            self.renderer,
            engine,
            recording,
            members=args.members,
            think=args.think,
            most=args.most,
        )
        buffer = DataBuffer(self.tasks, seed=seed)
        how = OverSampling(args.groups, way.factor, partial=way.partial)
        async with bridge.managed(buffer, how) as manager:
            loop = Loop(manager, engine, training)
            await loop.run(args.warm_up + args.batches, overlapping=way.overlapping)
            wasted = account(loop.batches, manager, buffer, engine)
        assert not (wasted and way.partial), "what is half played is thrown away"
        groups = [group for batch in loop.batches[args.warm_up :] for group in batch.groups]
        return Run(
            seconds=loop.ended[-1] - loop.ended[args.warm_up - 1],
            collecting=sum(loop.collecting[args.warm_up :]),
            trained=written(groups),
            episodes=sum(len(group.trajectories) for group in groups),
            wasted=wasted / engine.written,
            unfinished=sum(batch.tally.unfinished for batch in loop.batches),
        )


def on_virtual_clock(main: Coroutine[Any, Any, Run]) -> Run:
    """Run on a clock that jumps from event to event."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from virtual_clock import run_virtual

    return run_virtual(main)


def ways(factor: float) -> list[Way]:
    """What is compared; the first is what the others are measured by."""
    return [
        Way("plain: wait for all", 1.0),
        Way("over-sampling, the rest thrown away", factor, partial=False),
        Way("over-sampling, partial cache", factor),
        Way("asynchronous", 1.0, overlapping=True),
        Way("asynchronous, over-sampling, cache", factor, overlapping=True),
    ]


def spread(values: Sequence[float]) -> str:
    """The median, the least and the greatest of ratios."""
    return f"{median(values):.2f} x ({min(values):.2f} to {max(values):.2f})"


def print_table(rows: dict[str, list[Run]]) -> None:
    """Print each way against the first, seed by seed."""
    (plain, *_) = rows.values()
    print(f"{'':36} {'batches per s':>23} {'tokens per s':>23} {'while collecting':>23}   wasted")
    for name, runs in rows.items():
        pairs = list(zip(runs, plain, strict=True))
        batches = [first.seconds / run.seconds for run, first in pairs]
        tokens = [run.speed / first.speed for run, first in pairs]
        rollout = [run.throughput / first.throughput for run, first in pairs]
        wasted = f"{100 * median(run.wasted for run in runs):.1f} %"
        columns = [f"{spread(values):>23}" for values in (batches, tokens, rollout)]
        print(f"{name:36} {' '.join(columns)} {wasted:>8}")
    for name, runs in rows.items():
        mean = median(run.trained / run.episodes for run in runs)
        lost = median(run.unfinished for run in runs)
        print(f"{name}: {mean:.0f} tokens per trained episode, {lost:g} groups given up")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=16, help="of a batch")
    parser.add_argument("--members", type=int, default=8, help="episodes of a group")
    parser.add_argument("--batches", type=int, default=12, help="that are measured")
    parser.add_argument("--warm-up", type=int, default=4, help="batches before those")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--factor", type=float, default=1.5, help="of over-sampling")
    parser.add_argument("--running", type=int, default=128, help="most requests in the engine")
    parser.add_argument("--think", type=float, default=0.2, help="seconds of an environment's turn")
    parser.add_argument("--most", type=int, default=8192, help="tokens of an episode")
    parser.add_argument("--share", type=float, default=0.3, help="of training in a plain run")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer's folder, not Qwen2.5's")
    args = parser.parse_args()
    bench, rows = Bench(args), {way.name: [] for way in ways(args.factor)}
    for seed in range(args.seeds):
        plain = bench.play(ways(args.factor)[0], seed, 0.0)
        training = args.share / (1 - args.share) * plain.collecting / plain.trained
        for way in ways(args.factor):
            rows[way.name].append(bench.play(way, seed, training))
    print_table(rows)


if __name__ == "__main__":
    main()
