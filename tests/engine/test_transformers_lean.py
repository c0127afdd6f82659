"""The decoder without modules computes what the model's own forward computes."""

import pytest

torch = pytest.importorskip("torch")

from tiny_models import VOCABULARY, make_model, mean_difference  # noqa: E402

from retrain.engine.base import SamplingParams  # noqa: E402
from retrain.engine.transformers_cache import Span  # noqa: E402
from retrain.engine.transformers_forward import SlotForward  # noqa: E402
from retrain.engine.transformers_lean import lean_decoder  # noqa: E402

LEAN = ("llama", "qwen2", "qwen2-sliding", "qwen3", "mistral-sliding")


def spans_of_two_turns():
    """Prompts of different lengths, then one token each, then replies of different lengths."""

    def ids(slot, length):
        return [(7 * slot + 3 * n) % VOCABULARY for n in range(length)]

    prompts = [Span(slot, 0, ids(slot, 9 + 4 * slot)) for slot in range(3)]
    tokens = [Span(slot, 9 + 4 * slot, [slot + 1]) for slot in range(3)]
    replies = [Span(slot, 10 + 4 * slot, ids(slot + 5, 2 + slot)) for slot in (0, 2)]
    return [prompts, tokens, replies]


def logprobs(model, lean):
    """After each forward of two turns, by the lean decoder or by the model's own forward."""
    forward = SlotForward(model.eval(), max_slots=3, max_seq_len=64, dtype=None)
    forward._lean_agrees = lean
    with torch.no_grad():
        return [forward(spans).log_softmax(-1) for spans in spans_of_two_turns()]


@pytest.mark.parametrize("kind", LEAN)
def test_logprobs_are_those_of_the_models_own_forward(kind):
    model = make_model(kind)
    assert lean_decoder(model) is not None
    for ours, own in zip(logprobs(model, True), logprobs(model, False), strict=True):
        torch.testing.assert_close(ours, own, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", LEAN)
def test_bfloat16_rounds_where_the_model_rounds(kind):
    model = make_model(kind).bfloat16()
    for ours, own in zip(logprobs(model, True), logprobs(model, False), strict=True):
        torch.testing.assert_close(ours, own, rtol=0, atol=0.05)


@pytest.mark.parametrize("rope_type", ["linear", "llama3", "yarn"])
def test_scaled_rotary_embeddings_are_the_models_own(rope_type):
    scaling = {"rope_type": rope_type, "rope_theta": 1e4, "factor": 2.0}
    if rope_type == "llama3":
        scaling |= {
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        }
    model = make_model("llama", rope_parameters=scaling)
    for ours, own in zip(logprobs(model, True), logprobs(model, False), strict=True):
        torch.testing.assert_close(ours, own, rtol=0, atol=2e-5)


async def test_lora_adapters_are_part_of_it(start_engine):
    peft = pytest.importorskip("peft")
    adapters = peft.LoraConfig(r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False)
    model = peft.get_peft_model(make_model("qwen3"), adapters)
    assert lean_decoder(model) is not None
    prompt = list(range(20))
    answer = await start_engine(model).generate(prompt, SamplingParams(12), session_id="a", seed=3)
    assert mean_difference(model, prompt, answer) < 1e-5


def test_other_architectures_keep_their_own_forward():
    assert lean_decoder(make_model("gemma")) is None
    assert lean_decoder(make_model("olmo2")) is None


def test_attention_and_rotary_embeddings_that_are_not_known_keep_their_own_forward():
    dynamic = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    assert lean_decoder(make_model("llama", rope_parameters=dynamic)) is None
    assert lean_decoder(make_model("llama", attn_implementation="eager")) is None


def test_a_subclass_and_a_hooked_module_keep_their_own_forward():
    model = make_model("qwen3")
    handle = model.model.layers[1].mlp.register_forward_hook(lambda *args: None)
    assert lean_decoder(model) is None
    handle.remove()
    assert lean_decoder(model) is not None
    model.model.norm.__class__ = type("Other", (type(model.model.norm),), {})
    assert lean_decoder(model) is None


def test_a_hook_on_a_projection_is_called():
    model, seen = make_model("qwen3"), []
    model.model.layers[0].self_attn.q_proj.register_forward_hook(lambda *args: seen.append(1))
    logprobs(model, True)
    assert len(seen) == len(spans_of_two_turns())


def test_a_model_that_computes_something_else_is_left_to_its_own_forward():
    model = make_model("qwen3")
    model.model.layers[0].self_attn.scaling *= 3
    forward = SlotForward(model.eval(), max_slots=3, max_seq_len=64, dtype=None)
    forward._lean = lean_decoder(make_model("qwen3"))
    forward._lean_known = True
    with torch.no_grad():
        first = forward(spans_of_two_turns()[0])
    assert forward._lean_agrees is False
    torch.testing.assert_close(first.log_softmax(-1), logprobs(model, False)[0])
