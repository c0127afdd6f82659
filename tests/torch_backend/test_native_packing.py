"""Packed rows are computed as padded ones, or refused where a model reads one into the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from backends.torch.compute.packing import require_rows_apart
from backends.torch.compute.passes import PassSettings, forward_backward, score_rows
from backends.torch.compute.schedule import OptimizerSettings, make_optimizer
from backends.torch.factory import disable_dropout
from backends.torch.objective import ImitationObjective
from backends.torch.processes.ranks import Ranks
from backends.torch.pytorch import PyTorchTrainingBackend
from backends.torch.rows import TrainingBatch
from retrain.errors import ConfigError

WORDS = 90
SMALL = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SLIDING = {"sliding_window": 5}
GEMMA = {**SLIDING, "query_pre_attn_scalar": 16}
SHORT = {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 2}
PACKED = PassSettings(packed=True)


def made(kind: str, attention: str, **given: Any) -> Any:
    """A model of a kind with random weights, whose first layers say something."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = AutoConfig.for_model(kind, **(SHORT if kind == "bloom" else SMALL | given))
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    for weight in model.parameters():
        if weight.ndim >= 2:
            torch.nn.init.normal_(weight, std=0.2)
    return model


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("qwen2", {}),
        ("qwen3", {}),
        ("llama", {}),
        ("mistral", SLIDING),
        (
            "gemma3_text",
            {**GEMMA, "layer_types": ["sliding_attention", "full_attention"]},
        ),
    ],
)
def test_packed_rows_are_computed_as_padded_ones(
    samples: Any, kind: str, given: dict[str, Any], attention: str
) -> None:
    model = made(kind, attention, **given)
    require_rows_apart(model, PACKED)
    batch = TrainingBatch.of(samples(5, words=WORDS)).weighted("token")
    found = []
    for settings in (PACKED, PassSettings()):
        scored = [value for row in score_rows(model, batch.rows, settings) for value in row]
        forward_backward(model, batch.rows, ImitationObjective(), settings, Ranks())
        gradient = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        found.append((torch.tensor(scored), torch.cat(gradient)))
    (logprobs, gradient_), (padded, expected) = found
    torch.testing.assert_close(logprobs, padded, rtol=0, atol=1e-5)
    assert (gradient_ - expected).norm() < 1e-5 * expected.norm()


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("bloom", {}),
        ("lfm2", {"layer_types": ["conv", "full_attention"]}),
        ("gpt_oss", {**SLIDING, "num_local_experts": 2, "num_experts_per_tok": 1}),
    ],
)
def test_a_model_that_reads_rows_into_each_other_is_refused(
    kind: str, given: dict[str, Any], tmp_path: Path
) -> None:
    model = made(kind, "eager", **given).train()
    optimizer = make_optimizer(model, OptimizerSettings())
    with pytest.raises(ConfigError, match=r"torch_packing: .* reads one packed row into the next"):
        PyTorchTrainingBackend(
            model, optimizer, "sft", checkpoint_dir=tmp_path, passes=PACKED
        ).close()
    assert model.training
    PyTorchTrainingBackend(model, optimizer, "sft", checkpoint_dir=tmp_path).close()


def test_no_dropout_is_left_whoever_applies_it() -> None:
    """OPT applies its own by a number, in the function that computes a layer."""
    given = {"ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.5, "layerdrop": 0.5}
    model = made("opt", "eager", **given).train()
    ids = torch.arange(3, 20).unsqueeze(0)
    assert not torch.equal(model(ids).logits, model(ids).logits)
    disable_dropout(model)
    assert torch.equal(model(ids).logits, model(ids).logits)
