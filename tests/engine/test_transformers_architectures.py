import asyncio

import pytest

torch = pytest.importorskip("torch")

from tiny_models import (  # noqa: E402
    FALLBACK_MODELS,
    SLOT_MODELS,
    VOCABULARY,
    make_model,
    mean_difference,
)

from retrain.engine import transformers_architectures as architectures  # noqa: E402
from retrain.engine.base import SamplingParams  # noqa: E402
from retrain.engine.transformers_architectures import (  # noqa: E402
    slot_bytes,
    slots_that_fit,
    why_no_slots,
)
from retrain.errors import ConfigError  # noqa: E402


async def two_turns(engine, session, length):
    """Two turns of one episode: each turn's input and answer."""
    ids = [(7 * session + 3 * n) % VOCABULARY for n in range(length)]
    history = []
    for turn in range(2):
        params = SamplingParams(6 + session)
        answer = await engine.generate(
            ids, params, session_id=str(session), seed=10 * session + turn
        )
        history.append((ids, answer))
        ids = [*ids, *answer.output_ids, *range(4, 9)]
    return history


async def ragged_episodes(engine):
    """Three concurrent episodes of different lengths."""
    lengths = (3, 17, 9)
    return await asyncio.gather(*(two_turns(engine, n, size) for n, size in enumerate(lengths)))


@pytest.mark.parametrize("kind", SLOT_MODELS)
async def test_ragged_sessions_on_slots_agree_with_a_plain_forward(kind, start_engine):
    model = make_model(kind)
    engine = start_engine(model)
    assert engine.fallback_reason is None
    for history in await ragged_episodes(engine):
        (first_ids, first), (second_ids, second) = history
        assert first.meta["cached_tokens"] == 0
        assert second.meta["cached_tokens"] == len(first_ids) + len(first.output_ids) - 1
        assert mean_difference(model, first_ids, first) < 1e-5
        assert mean_difference(model, second_ids, second) < 1e-5


@pytest.mark.parametrize("kind", FALLBACK_MODELS)
async def test_models_without_slots_compute_their_whole_history(kind, start_engine):
    model = make_model(kind)
    engine = start_engine(model)
    assert model.config.model_type in engine.fallback_reason
    for history in await ragged_episodes(engine):
        for ids, answer in history:
            assert answer.meta["cached_tokens"] == 0
            assert mean_difference(model, ids, answer) < 1e-5


def test_every_architecture_that_may_use_slots_is_checked_here():
    checked = {model_type for model_type, _ in SLOT_MODELS.values()}
    assert checked == architectures._ONE_KIND | architectures._KIND_PER_LAYER


def test_reasons_against_slots_name_what_is_wrong():
    config = make_model("gemma3-sliding").config
    assert why_no_slots(config) is None
    config.use_bidirectional_attention = True
    assert "bidirectional" in why_no_slots(config)
    config = make_model("llama").config
    config._attn_implementation = "flash_attention_2"
    assert "flash_attention_2" in why_no_slots(config)
    config = make_model("qwen2").config
    config.layer_types = ["full_attention", "chunked_attention"]
    assert "chunked_attention" in why_no_slots(config)


async def test_slot_bytes_is_what_the_buffers_take(start_engine):
    model = make_model("qwen3")
    engine = start_engine(model, max_slots=2, max_seq_len=40)
    await asyncio.gather(
        *(
            engine.generate([3] * 30, SamplingParams(10), session_id=name, seed=0)
            for name in ("a", "b")
        )
    )
    layers = engine._scheduler._forward._cache.layers
    taken = sum(tensor.nbytes for layer in layers for tensor in (layer.keys, layer.values))
    assert taken == 2 * slot_bytes(model.config, 40, torch.float32)


def test_slots_that_fit_divides_the_budget():
    config = make_model("qwen3").config
    one = slot_bytes(config, 128, torch.bfloat16)
    assert one == 2 * 2 * 2 * 8 * 128 * 2
    assert slots_that_fit(config, 128, 5 * one + 1, torch.bfloat16) == 5


def test_a_budget_below_one_slot_is_refused_with_the_arithmetic():
    config = make_model("qwen3").config
    with pytest.raises(ConfigError, match=r"128 tokens x 256 bytes = 32,768 bytes .* 1,000"):
        slots_that_fit(config, 128, 1000, torch.float32)
