"""The head in tiles: the same numbers, from fewer logits at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    LlamaConfig,
    PretrainedConfig,
    Qwen3Config,
)

from backends.torch.compute import head as heads
from backends.torch.compute.head import plain_head
from backends.torch.compute.logprobs import score, token_logprobs
from backends.torch.compute.micro_batches import make_micro_batch
from backends.torch.compute.passes import PassSettings, forward_backward
from backends.torch.objective import PolicyObjective
from backends.torch.processes.ranks import Ranks
from backends.torch.rows import TrainingBatch

SMALL: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
"""Smaller than a vocabulary of random samples must be: words below 90."""


def build(kind: type[PretrainedConfig]) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(kind(**SMALL))


def passed(model: Any, batch: TrainingBatch, **settings: Any) -> tuple[dict[str, float], Any]:
    how = PassSettings(temperature=0.7, **settings)
    metrics = forward_backward(model, batch.rows, PolicyObjective(kl_coef=0.0), how, Ranks())
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()]).clone()
    model.zero_grad()
    return metrics, gradient


@pytest.mark.parametrize("kind", [Qwen3Config, Gemma2Config])
@pytest.mark.parametrize("packed", [False, True])
def test_tiles_and_whole_logits_give_the_same(
    kind: Any, packed: bool, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = build(kind), TrainingBatch.of(samples(7)).weighted("token")
    monkeypatch.setattr("backends.torch.compute.logprobs.plain_head", lambda model: None)
    expected, whole = passed(model, batch, packed=packed)
    monkeypatch.undo()
    for numbers in (2**26, 96 * 3, 1):
        monkeypatch.setattr(heads, "TILE_NUMBERS", numbers)
        found, gradient = passed(model, batch, packed=packed)
        assert found == pytest.approx(expected, rel=1e-5)
        assert (gradient - whole).norm() < 1e-6 * whole.norm()
    assert "forward" not in model.get_output_embeddings().__dict__


@pytest.mark.parametrize(
    ("kind", "plain"),
    [(Qwen3Config, True), (LlamaConfig, True), (Gemma2Config, False), (CohereConfig, False)],
)
def test_models_that_change_their_logits_are_told_apart(kind: Any, plain: bool) -> None:
    model = build(kind)
    before = torch.random.get_rng_state()
    assert (plain_head(model) is model.get_output_embeddings()) is plain
    assert torch.equal(torch.random.get_rng_state(), before)


def test_no_tensor_of_all_logits_is_kept(samples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiles of two tokens, what autograd keeps does not have a number for every logit."""
    model, words = build(Qwen3Config), SMALL["vocab_size"]
    micro = make_micro_batch(TrainingBatch.of(samples(7)).rows, "cpu")
    assert plain_head(model) is not None

    def largest(numbers: int) -> int:
        monkeypatch.setattr(heads, "TILE_NUMBERS", numbers)
        sizes = [0]

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes.append(tensor.shape[0] if tensor.shape[1:] == (words,) else 0)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            score(model, micro)
        return max(sizes)

    assert largest(2**26) == len(micro.targets) > 8
    assert largest(words * 2) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_written_out_gradient_is_autograds(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    logits = (4 * torch.randn(11, 30)).to(dtype).requires_grad_()
    targets, upstream = torch.randint(0, 30, (11,)), torch.randn(11)
    found, entropy = token_logprobs(logits, targets)
    plain = logits.float().log_softmax(-1)
    expected = plain.gather(-1, targets[:, None])[:, 0]
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(entropy, -(plain.exp() * plain).sum(-1))
    assert not entropy.requires_grad
    (ours,) = torch.autograd.grad(found @ upstream, logits)
    (theirs,) = torch.autograd.grad(expected @ upstream, logits)
    torch.testing.assert_close(ours, theirs)


def test_adapters_stand_before_a_head_in_tiles(
    model_dir: Path, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    peft = pytest.importorskip("peft")
    from retrain.config import ModelConfig
    from retrain.engine.transformers_loading import load_model

    base = load_model(ModelConfig(name_or_path=str(model_dir)))
    lora = peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(base, lora)
    batch = TrainingBatch.of(samples()).weighted("token")
    expected = forward_backward(model, batch.rows, PolicyObjective(), PassSettings(), Ranks())
    monkeypatch.setattr(heads, "TILE_NUMBERS", 1)
    found = forward_backward(model, batch.rows, PolicyObjective(), PassSettings(), Ranks())
    assert plain_head(model) is not None
    assert found == pytest.approx(expected, rel=1e-5)
    adapted = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad is not None for p in adapted)
