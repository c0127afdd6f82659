import asyncio
import math

import pytest

from retrain.engine.base import InferenceEngine, SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.errors import ConfigError, EngineFailure
from retrain.types import FinishReason

PARAMS = SamplingParams(16, stop_token_ids=frozenset({0}))


async def ask(engine, session="a", seed=1, params=PARAMS, ids=(7, 8)):
    return await engine.generate(ids, params, session_id=session, seed=seed)


def test_it_is_an_inference_engine_that_is_seeded_and_abortable():
    engine = ScriptedEngine([[1]])
    assert isinstance(engine, InferenceEngine)
    assert engine.capabilities.seeded and engine.capabilities.abortable


async def test_turns_play_in_order_per_session_whatever_the_order_of_arrival():
    engine = ScriptedEngine([[1, 0], [2, 0]])
    assert (await ask(engine, "a")).output_ids == (1, 0)
    assert (await ask(engine, "b")).output_ids == (1, 0)
    assert (await ask(engine, "b")).output_ids == (2, 0)
    assert (await ask(engine, "a")).output_ids == (2, 0)


async def test_a_mapping_gives_each_session_its_own_turns():
    engine = ScriptedEngine({"a": [[1]], "b": [[2]]})
    answers = await asyncio.gather(ask(engine, "b"), ask(engine, "a"))
    assert [answer.output_ids for answer in answers] == [(2,), (1,)]
    with pytest.raises(EngineFailure, match="no session 'c'"):
        await ask(engine, "c")


async def test_release_starts_a_session_over():
    engine = ScriptedEngine([[1], [2]])
    await ask(engine)
    await engine.release("a")
    assert (await ask(engine)).output_ids == (1,)


async def test_running_out_of_turns_is_an_engine_failure():
    engine = ScriptedEngine([[1]])
    await ask(engine)
    with pytest.raises(EngineFailure, match="asks for turn 1, the script has 1 turns"):
        await ask(engine)


async def test_a_policy_sees_the_request_and_may_give_logprobs_or_be_asynchronous():
    def policy(ids, params, session_id, seed):
        assert (ids, params, session_id) == ((7, 8), PARAMS, "a")
        return [seed, 0], [-0.5, -0.25]

    async def slow_policy(ids, params, session_id, seed):
        await asyncio.sleep(0)
        return policy(ids, params, session_id, seed)

    for script in (policy, slow_policy):
        answer = await ask(ScriptedEngine(script), seed=5)
        assert (answer.output_ids, answer.logprobs) == ((5, 0), (-0.5, -0.25))


async def test_a_policy_that_raises_is_an_engine_failure_and_its_turn_can_be_retried():
    answers = iter([RuntimeError("down"), [3, 0]])

    def policy(*_):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    engine = ScriptedEngine(policy)
    with pytest.raises(EngineFailure, match="script: RuntimeError: down"):
        await ask(engine)
    assert (await ask(engine)).output_ids == (3, 0)


async def test_texts_need_an_encoder():
    assert (await ask(ScriptedEngine(["ab"], encode=lambda t: list(map(ord, t))))).output_ids == (
        97,
        98,
    )
    with pytest.raises(ConfigError, match="encode="):
        await ask(ScriptedEngine(["ab"]))


async def test_derived_logprobs_are_finite_negative_and_depend_on_the_seed_alone():
    engine = ScriptedEngine([[1, 1, 2, 0], [1, 1, 2, 0], [1, 1, 2, 0]])
    first, again, other = [await ask(engine, seed=seed) for seed in (1, 1, 2)]
    assert first.logprobs == again.logprobs != other.logprobs
    assert all(math.isfinite(value) and value < 0 for value in first.logprobs)
    assert len(set(first.logprobs)) == 4


async def test_given_logprobs_must_fit_the_ids():
    with pytest.raises(EngineFailure, match="2 ids and 1 logprobs"):
        await ask(ScriptedEngine([([1, 2], [-1.0])]))


@pytest.mark.parametrize(
    ("turn", "max_tokens", "ids", "reason"),
    [
        ([1, 0, 2], 16, (1, 0), FinishReason.STOP),
        ([1, 2, 3], 2, (1, 2), FinishReason.LENGTH),
        ([1, 0], 2, (1, 0), FinishReason.STOP),
        ([1, 2, 0], 2, (1, 2), FinishReason.LENGTH),
        ([1, 2], 16, (1, 2), FinishReason.STOP),
    ],
)
async def test_stop_tokens_and_max_tokens_cut_the_turn(turn, max_tokens, ids, reason):
    params = SamplingParams(max_tokens, stop_token_ids=frozenset({0}))
    answer = await ask(ScriptedEngine([turn]), params=params)
    assert (answer.output_ids, answer.finish_reason) == (ids, reason)
    assert len(answer.logprobs) == len(ids)


async def test_calls_are_recorded_with_seed_and_parameters():
    engine = ScriptedEngine([[1], [2]])
    await ask(engine, seed=4)
    await ask(engine, seed=5, ids=[7, 8, 1])
    assert [(c.session_id, c.input_ids, c.seed) for c in engine.calls] == [
        ("a", (7, 8), 4),
        ("a", (7, 8, 1), 5),
    ]
    assert engine.calls[0].params is PARAMS


async def test_abort_returns_the_tokens_so_far():
    engine = ScriptedEngine([list(range(1, 15))], token_delay=0.02)
    request = asyncio.create_task(ask(engine))
    await asyncio.sleep(0.07)
    await engine.abort("a")
    answer = await request
    assert answer.finish_reason is FinishReason.ABORT
    assert 0 < len(answer.output_ids) < 14
    assert answer.output_ids == tuple(range(1, 1 + len(answer.output_ids)))


async def test_abort_of_a_policy_that_hangs_gives_an_empty_turn():
    async def hang(*_):
        await asyncio.Event().wait()

    engine = ScriptedEngine(hang)
    request = asyncio.create_task(ask(engine))
    await asyncio.sleep(0)
    await engine.abort("a")
    answer = await request
    assert (answer.output_ids, answer.finish_reason) == ((), FinishReason.ABORT)


async def test_one_session_cannot_run_two_requests():
    engine = ScriptedEngine([[1], [2]], token_delay=0.01)
    request = asyncio.create_task(ask(engine))
    await asyncio.sleep(0)
    with pytest.raises(EngineFailure, match="already has a running request"):
        await ask(engine)
    await request


async def test_the_weight_version_stands_on_the_generations():
    engine = ScriptedEngine([[1], [2]], weight_version="3")
    assert (await ask(engine)).weight_version == "3"
    engine.weights_changed("4")
    assert (await ask(engine)).weight_version == "4"
