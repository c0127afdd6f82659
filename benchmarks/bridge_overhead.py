"""What a turn costs beside the engine and the environment, from the first turn to the 128th.

One episode of tool calls is played by `EnvironmentBridge` on Qwen's vocabulary and chat template.
Engine and environment give prepared answers, and the time inside them is left out; what remains is
reading the turn, rendering the reply and the bookkeeping of the episode loop. It is compared, in
the same run, with what a loop without deltas does every turn: the whole history again through
`tokenizer.apply_chat_template`. Conversion to a Sample happens once per episode and is reported per
token. Times are CPU time, medians over turns and repeats; bytes are taken in a pass of their own.

    python benchmarks/bridge_overhead.py [--turns 128] [--repeats 9] [--tokenizer DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from prepared_episode import (
    MemoryMeter,
    Meter,
    PreparedEngine,
    PreparedEnvironment,
    Script,
    TimeMeter,
)

from bridges import DataFormatBridge, EnvironmentBridge, EpisodeLimits
from retrain.engine.base import Generation, SamplingParams
from retrain.environment import adapt
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.seeds import EpisodeSeed
from retrain.types import FinishReason, Message, Observation, StepResult, Task, Trajectory

TASK = Task("sum", "Add the numbers that I tell you, one after the other, with the calculator.")
TOOL = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Compute an arithmetic expression.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string", "description": "What to compute."}},
            "required": ["expression"],
        },
    },
}
FIRST_TURNS = 4
UNBOUNDED = 10**9


class Bench:
    """One episode's answers, and what is measured with them.

    Args:
        tokenizer: A tokenizer whose chat template writes tool calls in the Hermes format.
        turns: How many turns of the episode are measured; one more ends it.
    """

    def __init__(self, tokenizer: Any, turns: int) -> None:
        self.tokenizer = tokenizer
        self.renderer: DeltaRenderer = load_renderer(tokenizer)
        self.calls = [{"expression": f"{37 * n + 5} + {91 * n}"} for n in range(turns + 1)]
        self.replies = [f"The sum is {128 * n + 5}." for n in range(turns + 1)]
        self._generations = [self._generation(call["expression"]) for call in self.calls]

    def _generation(self, expression: str) -> Generation:
        call = f'{{"name": "calculator", "arguments": {{"expression": "{expression}"}}}}'
        text = f"<tool_call>\n{call}\n</tool_call>{self.tokenizer.eos_token}"
        ids = tuple(self.tokenizer.encode(text, add_special_tokens=False))
        return Generation(ids, (-0.5,) * len(ids), FinishReason.STOP)

    def play(self, turns: int, meter: Meter) -> Trajectory:
        """Play the first `turns` turns and the one that ends the episode."""
        results = [
            StepResult(Observation((Message("tool", reply),)), 0.1, n == turns, False, {"turn": n})
            for n, reply in enumerate(self.replies[: turns + 1])
        ]
        script = Script(self._generations, results, meter)
        bridge = EnvironmentBridge(
            self.renderer,
            lambda: adapt(PreparedEnvironment(script, TOOL)),
            EpisodeLimits(UNBOUNDED),
        )
        episode = bridge.run(
            TASK,
            engine=PreparedEngine(script),
            params=SamplingParams(UNBOUNDED),
            seed=EpisodeSeed(0, "train", TASK.id, 0, 0),
        )
        return asyncio.run(episode)

    def turn_times(self) -> list[float]:
        """Microseconds of each turn."""
        meter = TimeMeter()
        self.play(len(self.calls) - 1, meter)
        return [nanoseconds / 1e3 for nanoseconds in meter.turns[1:]]

    def turn_bytes(self) -> list[tuple[int, int]]:
        """Bytes of each turn: those that stay, and the most in use at a time."""
        meter = MemoryMeter()
        gc.freeze()
        tracemalloc.start()
        try:
            self.play(len(self.calls) - 1, meter)
        finally:
            tracemalloc.stop()
            gc.unfreeze()
        return meter.turns[1:]

    def rerender_times(self) -> list[float]:
        """Microseconds of each turn with the whole history rendered and encoded again."""
        history: list[dict[str, Any]] = [{"role": "user", "content": TASK.prompt}]
        times = []
        for arguments, reply in zip(self.calls[:-1], self.replies[:-1], strict=True):
            call = {"type": "function", "function": {"name": "calculator", "arguments": arguments}}
            history.append({"role": "assistant", "content": "", "tool_calls": [call]})
            history.append({"role": "tool", "content": reply})
            began = time.process_time_ns()
            self.rerender(history)
            times.append((time.process_time_ns() - began) / 1e3)
        return times

    def rerender(self, history: Sequence[dict[str, Any]]) -> list[int]:
        """The ids of a whole history."""
        return self.tokenizer.apply_chat_template(
            list(history), tools=[TOOL], add_generation_prompt=True, return_dict=False
        )

    def conversion(self, turns: int, repeats: int) -> tuple[int, float, int]:
        """Tokens of an episode's Sample, microseconds to make it, and bytes that it takes."""
        bridge = DataFormatBridge(self.renderer)
        trajectory = self.play(turns, TimeMeter())
        tokens = len(bridge.to_samples(trajectory)[0].tokens)
        times = []
        for _ in range(repeats):
            began = time.process_time_ns()
            bridge.to_samples(trajectory)
            times.append((time.process_time_ns() - began) / 1e3)
        tracemalloc.start()
        samples = bridge.to_samples(trajectory)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        del samples
        return tokens, median(times), kept


def buckets(turns: int) -> list[range]:
    """Turns 1, 2, 3 to 4, 5 to 8, …, counted from 1."""
    ends = [1]
    while ends[-1] < turns:
        ends.append(min(2 * ends[-1], turns))
    return [range(begin + 1, end + 1) for begin, end in zip([0, *ends], ends, strict=False)]


def load_tokenizer(folder: Path | None) -> Any:
    """The tokenizer of a folder; Qwen2.5's, made from installed packages, where there is none."""
    if folder is not None:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder)
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from real_tokenizers import qwen_tokenizer

    with tempfile.TemporaryDirectory() as cache:
        return qwen_tokenizer(Path(cache))


def over(turns: Iterable[int], rows: Sequence[Sequence[float]]) -> float:
    """The median over some turns, counted from 1, of all repeats."""
    return median(row[turn - 1] for row in rows for turn in turns)


def print_turns(
    ours: Sequence[Sequence[float]],
    others: Sequence[Sequence[float]],
    memory: Sequence[tuple[int, int]],
) -> None:
    """Print the table of turns and the two ratios that sum it up."""
    kept, peak = [[row[i] for row in memory] for i in (0, 1)]
    spans = buckets(len(memory))
    print("    turns   retrain us   re-render us   times   bytes kept   bytes at most")
    for span in spans:
        name = f"{span[0]}-{span[-1]}" if len(span) > 1 else f"{span[0]}"
        mine, theirs = over(span, ours), over(span, others)
        memory_of = f"{over(span, [kept]):10,.0f} {over(span, [peak]):15,.0f}"
        print(f"{name:>9} {mine:12.0f} {theirs:14.0f} {theirs / mine:7.1f} {memory_of:>28}")
    first, last = range(1, min(FIRST_TURNS, len(memory)) + 1), (len(memory),)
    for name, rows in (("retrain", ours), ("re-render", others)):
        ratio = over(last, rows) / over(first, rows)
        print(f"{name}: turn {len(memory)} costs {ratio:.2f} times turns 1 to {first[-1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer's folder, not Qwen2.5's")
    args = parser.parse_args()
    bench = Bench(load_tokenizer(args.tokenizer), args.turns)
    bench.turn_times()
    ours, others = [], []
    for _ in range(args.repeats):
        ours.append(bench.turn_times())
        others.append(bench.rerender_times())
    print_turns(ours, others, bench.turn_bytes())
    print("\n    turns   tokens   Sample us   us per turn   bytes per turn   bytes per token")
    for span in buckets(args.turns):
        turns = span[-1]
        tokens, spent, size = bench.conversion(turns, args.repeats)
        print(
            f"{turns:9} {tokens:8,} {spent:11,.0f} {spent / (turns + 1):13.1f} "
            f"{size / (turns + 1):16,.0f} {size / tokens:17.0f}"
        )


if __name__ == "__main__":
    main()
