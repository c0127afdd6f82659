"""vLLM in the training process: one loop steps it, and TRL's weights reach it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from vllm_checks import check_that_weights_follow
from vllm_stand_in import TinyLLM, stand_in_for_vllm

from backends.trl import vllm_planning
from retrain.engine import InferenceEngine, SamplingParams
from retrain.engine.http_answer import ServedModel
from retrain.engine.vllm_local import LocalVLLMEngine
from retrain.errors import ConfigError, EngineFailure
from retrain.types import FinishReason

PROMPT = [1, 50, 60, 70]


@pytest.fixture
def llm(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> TinyLLM:
    stand_in_for_vllm(monkeypatch)
    torch.set_num_threads(1)
    return TinyLLM(str(model_dir), max_model_len=64)


@pytest.fixture
def engine(llm: TinyLLM) -> Iterator[LocalVLLMEngine]:
    made = LocalVLLMEngine(lambda: llm, model=ServedModel("tiny", 354))
    yield made
    made.close()


async def write(engine: LocalVLLMEngine, session: str, length: int, **options: Any) -> Any:
    seed = options.pop("seed", 3)
    params = SamplingParams(length, **options)
    return await engine.generate(PROMPT, params, session_id=session, seed=seed)


async def test_turns_of_different_lengths_run_together_and_by_their_seeds(
    engine: LocalVLLMEngine, llm: TinyLLM
) -> None:
    lengths = [3, 9, 20]
    turns = [write(engine, f"s{n}", n, temperature=0.7) for n in lengths]
    answers = await asyncio.gather(*turns)
    assert [len(answer.output_ids) for answer in answers] == lengths
    longest = answers[-1]
    for answer in answers:
        assert answer.output_ids == longest.output_ids[: len(answer.output_ids)]
        assert answer.finish_reason is FinishReason.LENGTH
    assert max(llm.llm_engine.widths) == 3
    ids = torch.tensor([[*PROMPT, *longest.output_ids]])
    with torch.no_grad():
        logits = llm.llm_engine.model(ids).logits[0, len(PROMPT) - 1 : -1] / 0.7
    expected = torch.log_softmax(logits, -1)[range(20), list(longest.output_ids)]
    assert longest.logprobs == pytest.approx(expected.tolist(), abs=1e-5)
    other = await write(engine, "other", 20, seed=4)
    assert other.output_ids != longest.output_ids
    assert isinstance(engine, InferenceEngine)
    assert engine.capabilities.seeded


async def test_a_stop_token_ends_a_turn_and_is_kept(engine: LocalVLLMEngine) -> None:
    answer = await write(engine, "s", 50, stop_token_ids=frozenset(range(100, 354)))
    assert answer.finish_reason is FinishReason.STOP
    assert answer.output_ids[-1] >= 100


async def test_abort_gives_what_was_written(engine: LocalVLLMEngine, llm: TinyLLM) -> None:
    await write(engine, "first", 1)
    step, taken = llm.llm_engine.step, 0

    def slow() -> list[Any]:
        nonlocal taken
        taken += 1
        threading_wait(0.005)
        return step()

    llm.llm_engine.step = slow  # type: ignore[method-assign]
    turn = asyncio.create_task(write(engine, "s", 59))
    while taken < 3:
        await asyncio.sleep(0.002)
    await engine.abort("s")
    answer = await turn
    assert answer.finish_reason is FinishReason.ABORT
    assert 0 < len(answer.output_ids) == len(answer.logprobs) < 59
    cancelled = asyncio.create_task(write(engine, "s", 59))
    await asyncio.sleep(0.03)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert len((await write(engine, "s", 2)).output_ids) == 2
    assert not llm.llm_engine.has_unfinished_requests()


async def test_a_token_without_a_logprob_fails_its_turn(
    engine: LocalVLLMEngine, llm: TinyLLM
) -> None:
    step = llm.llm_engine.step

    def silent() -> list[Any]:
        outputs = step()
        for output in outputs:
            output.outputs[0].logprobs = None
        return outputs

    llm.llm_engine.step = silent  # type: ignore[method-assign]
    with pytest.raises(EngineFailure, match="a token without its logprob"):
        await write(engine, "s", 5)
    llm.llm_engine.step = step  # type: ignore[method-assign]
    assert len((await write(engine, "s", 5)).output_ids) == 5


def threading_wait(seconds: float) -> None:
    import threading

    threading.Event().wait(seconds)


async def test_what_cannot_be_served_fails_alone(engine: LocalVLLMEngine, llm: TinyLLM) -> None:
    with pytest.raises(EngineFailure, match="maximum context length is 64"):
        await engine.generate([1] * 64, SamplingParams(1), session_id="s", seed=0)
    with pytest.raises(EngineFailure, match=r"context is shorter than ours"):
        await engine.generate([1] * 60, SamplingParams(9), session_id="s", seed=0)
    with pytest.raises(EngineFailure, match="token ids from 1 to 354"):
        await engine.generate([1, 354], SamplingParams(9), session_id="s", seed=0)
    llm.llm_engine.broken = True
    with pytest.raises(EngineFailure, match="RuntimeError: the card fell off the bus"):
        await write(engine, "s", 2)
    llm.llm_engine.broken = False
    assert len((await write(engine, "s", 2)).output_ids) == 2


async def test_closing_leaves_nobody_waiting(engine: LocalVLLMEngine) -> None:
    turn = asyncio.create_task(write(engine, "s", 59))
    await asyncio.sleep(0.02)
    engine.close()
    with pytest.raises(EngineFailure, match="closed"):
        await turn


async def test_raw_logprobs_are_refused_where_they_are_others(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_for_vllm(monkeypatch)
    raw = TinyLLM(str(model_dir), logprobs_mode="raw_logprobs")
    engine = LocalVLLMEngine(lambda: raw)
    with pytest.raises(ConfigError, match=r"logprobs_mode='processed_logprobs'"):
        await write(engine, "s", 2, temperature=0.7)
    engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("sleeps", [False, True])
def test_it_generates_with_the_weights_that_are_trained(
    config: Any, spy: Any, monkeypatch: pytest.MonkeyPatch, sleeps: bool
) -> None:
    from trl.generation import vllm_generation

    before = dict(os.environ)
    stand_in_for_vllm(monkeypatch)
    made: list[TinyLLM] = []

    def make(**options: Any) -> TinyLLM:
        made.append(TinyLLM(**options))
        if options["enable_sleep_mode"]:
            assert options["max_model_len"] == 200
        return made[-1]

    monkeypatch.setattr(vllm_generation, "LLM", make, raising=False)
    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda: True)
    monkeypatch.setattr(vllm_planning, "is_installed", lambda: True)
    monkeypatch.setattr(vllm_planning, "can_take_weights", lambda: True)
    try:
        check_that_weights_follow(
            config, spy, trl_vllm_mode="colocate", trl_vllm_enable_sleep_mode=sleeps
        )
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
    (llm,) = made
    wakes = [call for call in llm.calls if call != "reset"]
    if sleeps:
        phase = ["wake weights", "wake kv_cache", "sleep"]
        assert wakes == ["sleep", *phase * 5], "three collections and two evaluations"
    else:
        assert wakes == []
        assert llm.calls.count("reset") == 2 * 4, "TRL's and ours, at steps 0, 1, 2 and 3"
