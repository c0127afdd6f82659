"""Random models of a few thousand parameters, and the plain forward that engines are held against.

Weights are drawn wide, so that distributions are sharp and a wrong mask shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

from retrain.engine.base import Generation

VOCABULARY = 97
WINDOW = 6

SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.3,
}
SLIDING: dict[str, Any] = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"],
}
EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}

SLOT_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "qwen2": ("qwen2", {}),
    "qwen2-sliding": ("qwen2", {**SLIDING, "use_sliding_window": True}),
    "qwen3": ("qwen3", {"head_dim": 8}),
    "qwen3_moe": ("qwen3_moe", {**EXPERTS, "num_experts": 4, "head_dim": 8}),
    "mistral-sliding": ("mistral", {"sliding_window": WINDOW}),
    "mixtral": ("mixtral", {"num_local_experts": 4}),
    "phi3-sliding": ("phi3", {"sliding_window": WINDOW}),
    "gemma": ("gemma", {"head_dim": 8}),
    "gemma2-sliding": ("gemma2", {**SLIDING, "head_dim": 8, "attn_implementation": "eager"}),
    "gemma3-sliding": ("gemma3_text", {**SLIDING, "head_dim": 8}),
    "cohere2-sliding": ("cohere2", SLIDING),
    "olmo2": ("olmo2", {}),
    "smollm3": ("smollm3", {}),
    "granite": ("granite", {}),
    "arcee": ("arcee", {}),
    "cohere": ("cohere", {}),
    "ernie4_5": ("ernie4_5", {"head_dim": 8}),
    "exaone4-sliding": ("exaone4", {**SLIDING, "head_dim": 8}),
    "glm": ("glm", {"head_dim": 8}),
    "glm4": ("glm4", {"head_dim": 8}),
    "glm4_moe": (
        "glm4_moe",
        {**EXPERTS, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "head_dim": 8},
    ),
    "gpt_oss-sliding": (
        "gpt_oss",
        {**SLIDING, "num_local_experts": 4, "head_dim": 8, "attn_implementation": "eager"},
    ),
    "granitemoe": ("granitemoe", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", {"head_dim": 8}),
    "nemotron": ("nemotron", {}),
    "olmo": ("olmo", {}),
    "olmo3-sliding": ("olmo3", SLIDING),
    "olmoe": ("olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
    "phi": ("phi", {}),
    "qwen2_moe": (
        "qwen2_moe",
        {**EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 24},
    ),
    "seed_oss": ("seed_oss", {"head_dim": 8}),
    "stablelm": ("stablelm", {}),
    "starcoder2-sliding": ("starcoder2", {"sliding_window": WINDOW}),
}
FALLBACK_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}),
    "mamba": ("mamba", {"state_size": 8, "attn_implementation": "eager"}),
    "recurrent_gemma": (
        "recurrent_gemma",
        {
            "lru_width": 32,
            "attention_window_size": 64,
            "num_hidden_layers": 3,
            "attn_implementation": "eager",  # transformers 5.12 knows no other for it
        },
    ),
    "qwen3_next": (
        "qwen3_next",
        {
            **EXPERTS,
            "num_experts": 4,
            "shared_expert_intermediate_size": 24,
            "head_dim": 8,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
}


def make_model(kind: str, **overrides: Any) -> PreTrainedModel:
    """A random model on the CPU, in training mode as a trainer holds it."""
    model_type, extra = {**SLOT_MODELS, **FALLBACK_MODELS}[kind]
    options = {**SIZES, **extra, **overrides}
    attention = options.pop("attn_implementation", "sdpa")
    torch.manual_seed(0)
    config = CONFIG_MAPPING[model_type](**options)
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention).train()


def plain_logprobs(
    model: torch.nn.Module, prompt: Sequence[int], output: Sequence[int], temperature: float = 1.0
) -> list[float]:
    """Logprobs of `output` after `prompt` by one forward without any cache."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *output]]), use_cache=False).logits[0]
    model.train(was_training)
    logprobs = torch.log_softmax(logits[len(prompt) - 1 : -1].float() / temperature, dim=-1)
    return logprobs[range(len(output)), list(output)].tolist()


def mean_difference(
    model: torch.nn.Module, prompt: Sequence[int], answer: Generation, temperature: float = 1.0
) -> float:
    """Mean |logprob of the engine - logprob of a plain forward| over a turn, in nats."""
    expected = plain_logprobs(model, prompt, answer.output_ids, temperature)
    pairs = zip(expected, answer.logprobs, strict=True)
    return sum(abs(plain - engine) for plain, engine in pairs) / len(expected)
