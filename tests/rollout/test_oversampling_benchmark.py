"""`benchmarks/oversampling.py`: what it counts is right, and the work is the same for every way."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from real_tokenizers import qwen_tokenizer
from virtual_clock import run_virtual

from retrain.engine.base import Generation, SamplingParams
from retrain.types import FinishReason

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = ("oversampling", "filled_batches", "recorded_work", "timed_engine", "bridge_overhead")
PARAMS = SamplingParams(10**6)


@pytest.fixture(scope="module")
def modules() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield SimpleNamespace(**{name: __import__(name) for name in NAMES})
    for name in (*NAMES, "prepared_episode"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return qwen_tokenizer(tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="module")
def bench(modules: Any, tokenizer: Any) -> Any:
    folder = None
    args = argparse.Namespace(
        groups=3,
        members=2,
        batches=4,
        warm_up=1,
        factor=2.0,
        running=6,
        think=0.2,
        most=2048,
        tokenizer=folder,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modules.oversampling, "load_tokenizer", lambda _: tokenizer)
        return modules.oversampling.Bench(args)


def test_the_recorded_conversations_have_several_turns_and_a_long_tail(modules: Any) -> None:
    turns = modules.recorded_work.recorded_turns()
    totals = sorted(map(sum, turns))
    assert len(turns) == 1925 and min(map(len, turns)) == 2
    assert all(tokens >= 1 for row in turns for tokens in row)
    assert totals[-1] > 30 * totals[len(totals) // 2]


def test_every_way_accounts_for_each_task_and_token(modules: Any, bench: Any) -> None:
    runs = {way.name: bench.play(way, 0, 0.001) for way in modules.oversampling.ways(2.0)}
    plain, thrown, cached, overlapping, _ = runs.values()
    assert plain.wasted == cached.wasted == overlapping.wasted == 0
    assert thrown.wasted > 0 and thrown.unfinished > 0
    assert cached.throughput > plain.throughput
    assert overlapping.seconds < plain.seconds
    assert {run.episodes for run in runs.values()} == {3 * 2 * 4}
    assert plain.trained == overlapping.trained


def test_a_run_is_the_same_every_time(modules: Any, bench: Any) -> None:
    way = modules.oversampling.ways(2.0)[2]
    assert bench.play(way, 1, 0.001) == bench.play(way, 1, 0.001)


def test_a_token_that_was_written_twice_is_found(modules: Any) -> None:
    turn, tally = SimpleNamespace(output_ids=(1, 2, 3)), SimpleNamespace(unfinished=0)
    group = SimpleNamespace(
        trajectories=[SimpleNamespace(turns=[turn])], task=SimpleNamespace(id="a"), visit=0
    )
    empty = SimpleNamespace(
        requests=list, state_dict=lambda: {"finished": []}, partial_groups=tuple
    )
    account, batch = modules.filled_batches.account, SimpleNamespace(groups=[group], tally=tally)
    drawn = SimpleNamespace(drawn=1)
    assert account([batch], empty, drawn, SimpleNamespace(written=5)) == 2
    with pytest.raises(AssertionError, match="that nobody wrote"):
        account([batch], empty, drawn, SimpleNamespace(written=2))
    with pytest.raises(AssertionError, match="trained on twice"):
        account([batch, batch], empty, drawn, SimpleNamespace(written=9))
    with pytest.raises(AssertionError, match="is lost"):
        account([batch], empty, SimpleNamespace(drawn=2), SimpleNamespace(written=3))


def engine(modules: Any, running: int = 8) -> Any:
    speed = modules.timed_engine.Speed(fixed=1.0, per_sequence=0.5, prefill=0.25, running=running)
    return modules.timed_engine.TimedEngine(speed, lambda stream: stream[0], range(10, 20), 7)


async def timed(writer: Any, session: str, stream: list[int]) -> tuple[float, Generation]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    done = await writer.generate(stream, PARAMS, session_id=session, seed=0)
    return loop.time() - began, done


def test_a_step_takes_longer_the_more_run_and_prompts_delay_it(modules: Any) -> None:
    async def both() -> Any:
        writer = engine(modules)
        return await asyncio.gather(timed(writer, "a", [4]), timed(writer, "b", [6]))

    (first, answer), (second, _) = run_virtual(both())
    assert first == pytest.approx(2 * 0.25 + 4 * 2.0)
    assert second == pytest.approx(first + 2 * 1.5)
    assert answer.output_ids == (10, 11, 12, 7) and answer.finish_reason is FinishReason.STOP


def test_a_request_waits_for_room(modules: Any) -> None:
    async def both() -> Any:
        writer = engine(modules, running=1)
        return await asyncio.gather(timed(writer, "a", [4]), timed(writer, "b", [2]))

    (first, _), (second, _) = run_virtual(both())
    assert first == pytest.approx(0.25 + 4 * 1.5)
    assert second == pytest.approx(first + 0.25 + 2 * 1.5)


def test_an_abort_keeps_what_was_written_and_what_is_cached_costs_nothing(modules: Any) -> None:
    async def cut() -> Any:
        writer = engine(modules)
        running = asyncio.create_task(timed(writer, "a", [10]))
        await asyncio.sleep(0.25 + 3.2 * 1.5)
        await writer.abort("a")
        _, part = await running
        stream = [7, *part.output_ids]
        return part, await timed(writer, "a", stream), writer.written

    part, (seconds, _), written = run_virtual(cut())
    assert part.finish_reason is FinishReason.ABORT and part.output_ids == (10, 11, 12)
    assert seconds == pytest.approx(7 * 1.5)
    assert written == 3 + 7


def test_what_is_missing_of_an_answer_is_read_off_its_stream(modules: Any, tokenizer: Any) -> None:
    wanted = modules.timed_engine.Wanted(tokenizer)
    messages = [{"role": "user", "content": "Go on for 40 tokens."}]
    stream = list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    )
    assert wanted(stream) == 40
    assert wanted([*stream, *[11] * 15]) == 25
    with pytest.raises(ValueError, match="no length in"):
        wanted(tokenizer.encode("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"))
