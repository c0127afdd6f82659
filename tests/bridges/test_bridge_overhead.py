"""`benchmarks/bridge_overhead.py`: it measures what it says, and the memory of a turn is flat."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bridge_overhead

    yield bridge_overhead
    for name in ("bridge_overhead", "prepared_episode"):
        sys.modules.pop(name, None)


def test_both_sides_make_the_same_tokens(benchmark: Any, tokenizer: Any) -> None:
    bench = benchmark.Bench(tokenizer, 8)
    (segment,) = bench.play(8, benchmark.TimeMeter()).segments
    history: list[dict[str, Any]] = [{"role": "user", "content": benchmark.TASK.prompt}]
    for arguments, reply in zip(bench.calls[:8], bench.replies[:8], strict=True):
        call = {"type": "function", "function": {"name": "calculator", "arguments": arguments}}
        history.append({"role": "assistant", "content": "", "tool_calls": [call]})
        history.append({"role": "tool", "content": reply})
    before_the_last = list(segment.ids)[: -len(segment.turns[-1].output_ids)]
    assert bench.rerender(history) == before_the_last


def test_every_turn_is_measured(benchmark: Any, tokenizer: Any) -> None:
    bench = benchmark.Bench(tokenizer, 8)
    assert len(bench.turn_times()) == len(bench.rerender_times()) == 8
    assert min(bench.turn_times()) > 0
    assert [len(span) for span in benchmark.buckets(8)] == [1, 1, 2, 4]
    tokens, microseconds, size = bench.conversion(8, repeats=2)
    assert tokens == len(bench.play(8, benchmark.TimeMeter()).segments[0].ids)
    assert microseconds > 0 and size > 8 * tokens


def test_the_time_inside_engine_and_environment_is_left_out(
    benchmark: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = benchmark.TimeMeter()
    now = iter(range(0, 10**12, 10))
    monkeypatch.setattr("time.process_time_ns", lambda: next(now))
    benchmark.Bench(tokenizer, 2).play(2, meter)
    assert meter.turns[1:] == [20, 20]


def test_the_memory_of_a_turn_does_not_grow(benchmark: Any, tokenizer: Any) -> None:
    bench = benchmark.Bench(tokenizer, 64)
    bench.turn_times()
    kept, peak = zip(*bench.turn_bytes(), strict=True)
    assert median(peak[48:]) < 1.2 * median(peak[:8])
    assert median(kept[48:]) < 1.2 * median(kept[:8])
