import asyncio
import time

import pytest

torch = pytest.importorskip("torch")

from tiny_models import VOCABULARY, make_model, mean_difference  # noqa: E402

from retrain.engine.base import InferenceEngine, SamplingParams  # noqa: E402
from retrain.engine.transformers_sampling import uniform  # noqa: E402
from retrain.errors import ConfigError, EngineFailure  # noqa: E402
from retrain.types import FinishReason  # noqa: E402

PARAMS = SamplingParams(8)
LONG = SamplingParams(200)


@pytest.fixture(scope="module")
def model():
    return make_model("qwen3")


def prompt(session, length=12):
    return [(5 * session + 3 * n) % VOCABULARY for n in range(length)]


async def episode(engine, session, turns=3, release=True):
    """Each turn's input and answer; turn lengths and prompts differ by session."""
    ids, history = prompt(session, 5 + 4 * session), []
    for turn in range(turns):
        params = SamplingParams(4 + (session + turn) % 5)
        answer = await engine.generate(
            ids, params, session_id=str(session), seed=100 * session + turn
        )
        history.append((ids, answer))
        ids = [*ids, *answer.output_ids, *range(10, 14 + session)]
    if release:
        await engine.release(str(session))
    return history


def outputs(history):
    return [answer.output_ids for _, answer in history]


async def wait_until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def settled(engine):
    """Wait until everything posted so far has been done."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    engine._worker.post(lambda: loop.call_soon_threadsafe(done.set))
    await done.wait()


def slow_down(model, monkeypatch, seconds=0.01):
    """Make every forward take a while; returns the list that counts them."""
    forwards = []
    original = model.forward

    def forward(*args, **kwargs):
        forwards.append(kwargs["input_ids"].shape)
        time.sleep(seconds)
        return original(*args, **kwargs)

    monkeypatch.setattr(model, "forward", forward)
    return forwards


def test_it_is_an_inference_engine_that_is_seeded_and_abortable(model, start_engine):
    engine = start_engine(model)
    assert isinstance(engine, InferenceEngine)
    assert engine.capabilities.seeded and engine.capabilities.abortable


async def test_concurrent_ragged_episodes_write_what_they_write_alone(model, start_engine):
    engine = start_engine(model, max_slots=6)
    alone = [await episode(engine, session) for session in range(6)]
    together = await asyncio.gather(*(episode(engine, session) for session in range(6)))
    assert [outputs(h) for h in together] == [outputs(h) for h in alone]
    differences = [mean_difference(model, ids, a) for h in together for ids, a in h]
    assert max(differences) < 1e-5


async def test_kept_slots_write_what_a_fresh_prefill_writes(model, start_engine):
    engine = start_engine(model)
    for turn, (ids, kept) in enumerate(await episode(engine, 2)):
        params = SamplingParams(len(kept.output_ids))
        fresh = await engine.generate(ids, params, session_id=f"fresh {turn}", seed=200 + turn)
        await engine.release(f"fresh {turn}")
        assert fresh.output_ids == kept.output_ids
        assert fresh.logprobs == pytest.approx(kept.logprobs, abs=1e-5)
        assert fresh.meta["cached_tokens"] == 0


async def test_each_turn_computes_only_what_is_new(model, start_engine, monkeypatch):
    engine = start_engine(model)
    forwards = slow_down(model, monkeypatch, 0.0)
    history = await episode(engine, 1)
    lengths = [len(ids) for ids, _ in history]
    cached = [answer.meta["cached_tokens"] for _, answer in history]
    written = [len(answer.output_ids) for _, answer in history]
    assert cached == [0, lengths[0] + written[0] - 1, lengths[1] + written[1] - 1]
    prefills = [columns for _, columns in forwards if columns > 1]
    assert prefills == [n - kept for n, kept in zip(lengths, cached, strict=True)]


async def test_a_rewritten_history_is_computed_from_the_common_prefix(model, start_engine):
    engine = start_engine(model)
    await engine.generate(prompt(0), PARAMS, session_id="a", seed=1)
    rewritten = [*prompt(0)[:7], 90, 91, 92]
    answer = await engine.generate(rewritten, PARAMS, session_id="a", seed=2)
    assert answer.meta == {"cached_tokens": 7, "prompt_tokens": 10}
    assert mean_difference(model, rewritten, answer) < 1e-5


async def test_a_repeated_turn_computes_one_token_and_writes_the_same(model, start_engine):
    engine = start_engine(model)
    first = await engine.generate(prompt(3), PARAMS, session_id="a", seed=7)
    again = await engine.generate(prompt(3), PARAMS, session_id="a", seed=7)
    other = await engine.generate(prompt(3), PARAMS, session_id="a", seed=8)
    assert again.output_ids == first.output_ids != other.output_ids
    assert again.meta["cached_tokens"] == len(prompt(3)) - 1


@pytest.mark.parametrize("grace", [0.0, 0.01])
async def test_fewer_slots_than_episodes_stay_correct(model, start_engine, grace):
    alone = [await episode(start_engine(model), session) for session in range(7)]
    engine = start_engine(model, max_slots=2, eviction_grace=grace)
    together = await asyncio.gather(*(episode(engine, session) for session in range(7)))
    assert [outputs(h) for h in together] == [outputs(h) for h in alone]


async def test_the_session_idle_longest_loses_its_slot(model, start_engine):
    engine = start_engine(model, max_slots=2)
    for name in ("a", "b", "a", "c"):
        await engine.generate(prompt(1), PARAMS, session_id=name, seed=0)
    kept = await engine.generate(prompt(1), PARAMS, session_id="a", seed=0)
    lost = await engine.generate(prompt(1), PARAMS, session_id="b", seed=0)
    assert (kept.meta["cached_tokens"], lost.meta["cached_tokens"]) == (len(prompt(1)) - 1, 0)
    assert kept.output_ids == lost.output_ids


async def test_a_waiting_session_gets_a_slot_when_the_grace_has_passed(model, start_engine):
    engine = start_engine(model, max_slots=1, eviction_grace=0.1)
    await engine.generate(prompt(1), PARAMS, session_id="a", seed=0)
    begin = time.monotonic()
    await engine.generate(prompt(1), PARAMS, session_id="b", seed=0)
    assert time.monotonic() - begin > 0.05


async def test_the_grace_delays_nobody_who_can_have_a_slot(model, start_engine):
    engine = start_engine(model, max_slots=2, eviction_grace=60.0)
    async with asyncio.timeout(20):
        await episode(engine, 0, release=False)
        await episode(engine, 1, release=False)


async def test_every_token_of_a_turn_is_drawn_with_its_own_uniform(start_engine):
    model = make_model("llama")
    with torch.no_grad():
        model.lm_head.weight.zero_()
    answer = await start_engine(model).generate(
        prompt(0), SamplingParams(20), session_id="a", seed=5
    )
    expected = [int(uniform(5, position) * VOCABULARY) for position in range(20)]
    assert list(answer.output_ids) == expected


async def test_new_requests_join_a_running_batch(model, start_engine, monkeypatch):
    forwards = slow_down(model, monkeypatch)
    engine = start_engine(model)
    long = asyncio.create_task(
        engine.generate(prompt(0), SamplingParams(40), session_id="long", seed=0)
    )
    await wait_until(lambda: len(forwards) > 3)
    short = await engine.generate(prompt(1), SamplingParams(3), session_id="short", seed=0)
    assert not long.done()
    assert len(short.output_ids) == 3
    assert (2, 1) in forwards
    assert mean_difference(model, prompt(0), await long) < 1e-5


async def test_long_prompts_are_computed_in_chunks(model, start_engine, monkeypatch):
    forwards = slow_down(model, monkeypatch, 0.0)
    engine = start_engine(model, prefill_chunk=16)
    answer = await engine.generate(prompt(0, 50), PARAMS, session_id="a", seed=0)
    assert [columns for _, columns in forwards if columns > 1] == [16, 16, 16, 2]
    assert mean_difference(model, prompt(0, 50), answer) < 1e-5


async def test_the_event_loop_runs_while_the_model_does(model, start_engine, monkeypatch):
    slow_down(model, monkeypatch, 0.05)
    engine = start_engine(model)
    request = asyncio.create_task(engine.generate(prompt(0), PARAMS, session_id="a", seed=0))
    ticks = 0
    while not request.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks > 10


async def test_idle_slots_between_running_ones_keep_their_contents(model, start_engine):
    engine = start_engine(model)
    idle = await engine.generate(prompt(1), PARAMS, session_id="1", seed=1)
    for name in ("0", "2"):
        await engine.generate(prompt(2), PARAMS, session_id=name, seed=1)
    await asyncio.gather(
        *(engine.generate(prompt(4), PARAMS, session_id=name, seed=2) for name in ("0", "2", "3"))
    )
    longer = [*prompt(1), *idle.output_ids, 4, 5, 6]
    answer = await engine.generate(longer, PARAMS, session_id="1", seed=3)
    assert answer.meta["cached_tokens"] == len(longer) - 4
    assert mean_difference(model, longer, answer) < 1e-5


async def test_stop_tokens_end_the_turn_and_stay_in_it(model, start_engine):
    engine = start_engine(model)
    free = await engine.generate(prompt(0), SamplingParams(30), session_id="a", seed=5)
    stop = free.output_ids[4]
    params = SamplingParams(30, stop_token_ids=frozenset({stop}))
    answer = await engine.generate(prompt(0), params, session_id="a", seed=5)
    assert free.finish_reason is FinishReason.LENGTH
    assert answer.finish_reason is FinishReason.STOP
    assert answer.output_ids == free.output_ids[: free.output_ids.index(stop) + 1]


async def test_greedy_and_sharp_requests_share_a_batch(model, start_engine):
    engine = start_engine(model)
    kinds = [SamplingParams(8, temperature=t) for t in (0.0, 0.5, 1.0)]
    answers = await asyncio.gather(
        *(
            engine.generate(prompt(n), params, session_id=str(n), seed=n)
            for n, params in enumerate(kinds)
        )
    )
    for n, (params, answer) in enumerate(zip(kinds, answers, strict=True)):
        temperature = params.temperature or 1.0
        assert mean_difference(model, prompt(n), answer, temperature) < 1e-5
    top_one = SamplingParams(8, top_k=1)
    forced = await engine.generate(prompt(0), top_one, session_id="k", seed=9)
    assert forced.output_ids == answers[0].output_ids


async def test_a_change_of_weights_drops_everything_kept(start_engine):
    model = make_model("llama")
    engine = start_engine(model, weight_version="step 0")
    first = await engine.generate(prompt(0), PARAMS, session_id="a", seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.3)
    engine.weights_changed("step 1")
    second = await engine.generate(prompt(0), PARAMS, session_id="a", seed=1)
    assert (first.weight_version, second.weight_version) == ("step 0", "step 1")
    assert engine.weight_version == "step 1"
    assert second.meta["cached_tokens"] == 0
    assert mean_difference(model, prompt(0), second) < 1e-5


async def test_a_request_that_runs_through_a_change_of_weights_goes_on(
    model, start_engine, monkeypatch
):
    forwards = slow_down(model, monkeypatch)
    engine = start_engine(model)
    request = asyncio.create_task(
        engine.generate(prompt(0), SamplingParams(30), session_id="a", seed=1)
    )
    await wait_until(lambda: len(forwards) > 5)
    engine.weights_changed("1")
    answer = await request
    assert answer.weight_version == "0"
    assert [columns > 1 for _, columns in forwards].count(True) == 2
    assert mean_difference(model, prompt(0), answer) < 1e-5


async def test_the_last_session_to_go_frees_the_memory(model, start_engine):
    engine = start_engine(model)
    layer = engine._scheduler._forward._cache.layers[0]
    for name in ("a", "b"):
        await engine.generate(prompt(0), PARAMS, session_id=name, seed=1)
    await engine.release("a")
    await settled(engine)
    assert layer.keys is not None
    await engine.release("b")
    await settled(engine)
    assert layer.keys is None
    answer = await engine.generate(prompt(0), PARAMS, session_id="a", seed=1)
    assert mean_difference(model, prompt(0), answer) < 1e-5


async def test_memory_grows_with_what_is_used(model, start_engine):
    engine = start_engine(model, max_slots=64, max_seq_len=256)
    layer = engine._scheduler._forward._cache.layers[0]
    await engine.generate(prompt(0), PARAMS, session_id="a", seed=1)
    assert tuple(layer.keys.shape[::2]) == (1, 64)
    await engine.generate(prompt(0, 100), PARAMS, session_id="b", seed=1)
    assert tuple(layer.keys.shape[::2]) == (2, 150)
    await engine.generate(prompt(0, 240), PARAMS, session_id="a", seed=1)
    assert tuple(layer.keys.shape[::2]) == (2, 256)


@pytest.mark.parametrize("training", [True, False])
async def test_the_model_runs_in_evaluation_mode_and_is_put_back(
    start_engine, training, monkeypatch
):
    model = make_model("llama", attention_dropout=0.5)
    model.train(training)
    model.model.layers[0].train(not training)
    before = [module.training for module in model.modules()]
    model.gradient_checkpointing_enable()
    during = []
    original = model.forward

    def forward(*args, **kwargs):
        during.append(any(module.training for module in model.modules()))
        during.append(torch.is_grad_enabled())
        return original(*args, **kwargs)

    monkeypatch.setattr(model, "forward", forward)
    answer = await start_engine(model).generate(prompt(0), PARAMS, session_id="a", seed=1)
    assert [module.training for module in model.modules()] == before
    assert not any(during)
    model.eval()
    assert mean_difference(model, prompt(0), answer) < 1e-5


async def test_autocast_is_entered_in_the_engines_thread_and_sets_the_kv_type(start_engine):
    model = make_model("llama")
    engine = start_engine(model, autocast_dtype=torch.bfloat16)
    answer = await engine.generate(prompt(0), PARAMS, session_id="a", seed=1)
    assert engine._scheduler._forward._cache.layers[0].keys.dtype is torch.bfloat16
    model.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        close = mean_difference(model, prompt(0), answer)
    assert close < 0.05
    assert mean_difference(model, prompt(0), answer) > 1e-5
    assert not torch.is_autocast_enabled("cpu")


async def test_a_failing_step_reaches_every_caller_and_the_engine_goes_on(
    model, start_engine, monkeypatch
):
    engine = start_engine(model, max_slots=2)
    before = await engine.generate(prompt(0), PARAMS, session_id="0", seed=0)
    original = model.forward

    def broken(*args, **kwargs):
        if kwargs["input_ids"].shape[1] == 1:
            raise RuntimeError("out of memory")
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(model, "forward", broken)
        requests = [engine.generate(prompt(n), PARAMS, session_id=str(n), seed=n) for n in range(5)]
        failures = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(failure) for failure in failures] == [EngineFailure] * 5
    assert all("RuntimeError: out of memory" in str(failure) for failure in failures)
    assert isinstance(failures[0].__cause__, RuntimeError)
    assert model.training
    after = await engine.generate(prompt(0), PARAMS, session_id="0", seed=0)
    assert after.output_ids == before.output_ids
    assert after.meta["cached_tokens"] == 0


async def test_diverged_weights_are_named(start_engine):
    model = make_model("llama")
    with torch.no_grad():
        model.lm_head.weight[3] = torch.nan
    with pytest.raises(EngineFailure, match="weights have diverged"):
        await start_engine(model).generate(prompt(0), PARAMS, session_id="a", seed=0)


async def test_abort_returns_the_tokens_so_far_and_keeps_the_slot(model, start_engine, monkeypatch):
    forwards = slow_down(model, monkeypatch)
    engine = start_engine(model)
    full = await engine.generate(prompt(0), SamplingParams(12), session_id="b", seed=1)
    forwards.clear()
    request = asyncio.create_task(engine.generate(prompt(0), LONG, session_id="a", seed=1))
    await wait_until(lambda: len(forwards) > 5)
    await engine.abort("a")
    answer = await request
    written = len(answer.output_ids)
    assert answer.finish_reason is FinishReason.ABORT
    assert 4 < written == len(answer.logprobs) < 200
    assert answer.output_ids[:12] == full.output_ids[:written]
    resumed = [*prompt(0), *answer.output_ids]
    rest = await engine.generate(resumed, PARAMS, session_id="a", seed=2)
    assert rest.meta["cached_tokens"] == len(resumed) - 1


async def test_abort_of_a_request_that_waits_for_a_slot_gives_an_empty_turn(
    model, start_engine, monkeypatch
):
    slow_down(model, monkeypatch)
    engine = start_engine(model, max_slots=1)
    running = asyncio.create_task(engine.generate(prompt(0), LONG, session_id="a", seed=1))
    waiting = asyncio.create_task(engine.generate(prompt(1), PARAMS, session_id="b", seed=1))
    await asyncio.sleep(0.05)
    await engine.abort("b")
    answer = await waiting
    assert (answer.output_ids, answer.finish_reason) == ((), FinishReason.ABORT)
    await engine.release("a")
    assert (await running).finish_reason is FinishReason.ABORT
    await engine.abort("nobody")


async def test_a_cancelled_caller_gives_its_slot_back(model, start_engine, monkeypatch):
    forwards = slow_down(model, monkeypatch)
    engine = start_engine(model, max_slots=1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await engine.generate(prompt(0), LONG, session_id="a", seed=1)
    answer = await engine.generate(prompt(1), SamplingParams(2), session_id="b", seed=1)
    assert len(answer.output_ids) == 2
    assert len(forwards) < 40
    assert (await engine.generate(prompt(0), PARAMS, session_id="a", seed=1)).output_ids


async def test_one_session_cannot_run_two_requests(model, start_engine, monkeypatch):
    slow_down(model, monkeypatch)
    engine = start_engine(model)
    answers = await asyncio.gather(
        *(engine.generate(prompt(0), PARAMS, session_id="a", seed=1) for _ in range(2)),
        return_exceptions=True,
    )
    assert len(answers[0].output_ids) == 8
    assert "already has a running request" in str(answers[1])


async def test_close_fails_whoever_waits_and_later_requests(model, start_engine, monkeypatch):
    slow_down(model, monkeypatch)
    engine = start_engine(model, max_slots=1)
    requests = [
        asyncio.create_task(engine.generate(prompt(n), LONG, session_id=str(n), seed=n))
        for n in range(2)
    ]
    await asyncio.sleep(0.05)
    engine.close()
    for failure in await asyncio.gather(*requests, return_exceptions=True):
        assert isinstance(failure, EngineFailure) and "closed" in str(failure)
    with pytest.raises(EngineFailure, match="closed"):
        await engine.generate(prompt(0), PARAMS, session_id="a", seed=1)
    assert model.training
    engine.close()


@pytest.mark.parametrize(
    ("ids", "params", "message"),
    [
        ([], PARAMS, "prompt is empty"),
        ([3] * 250, PARAMS, r"250 prompt tokens \+ 8 to write = 258 > max_seq_len 256"),
        ([3, VOCABULARY], PARAMS, r"from 3 to 97: the model knows 0 to 96"),
        ([-1], PARAMS, r"from -1 to -1"),
        ([3], SamplingParams(0), "max_tokens is 0"),
        ([3], SamplingParams(4, temperature=-1.0), "temperature -1"),
        ([3], SamplingParams(4, top_p=0.0), "top_p 0"),
    ],
)
async def test_requests_that_cannot_be_served_are_refused(
    model, start_engine, ids, params, message
):
    with pytest.raises(EngineFailure, match=message):
        await start_engine(model).generate(ids, params, session_id="a", seed=1)


async def test_images_are_refused(model, start_engine):
    with pytest.raises(EngineFailure, match="no images"):
        await start_engine(model).generate([3], PARAMS, session_id="a", seed=1, images=["cat.png"])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"max_slots": 0}, "max_slots is 0"),
        ({"max_seq_len": 257}, "max_seq_len is 257, the model knows 256 positions"),
        ({"prefill_chunk": 0}, "prefill_chunk is 0"),
    ],
)
def test_sizes_that_cannot_be_are_refused(model, start_engine, sizes, message):
    with pytest.raises(ConfigError, match=message):
        start_engine(model, **sizes)
