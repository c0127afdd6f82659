"""What a run takes, reckoned before the weights are read; and what is said when it is too much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    PretrainedConfig,
    Qwen3Config,
)
from trl.trainer.utils import add_fused_lm_head

from backends.local.activations import activation_bytes
from backends.local.memory import Workload, adapter_parameters, estimate
from backends.local.outline import outline, read_outline
from backends.trl import memory_planning
from backends.trl.backend import TRLBackend
from backends.trl.trainer import BridgedGRPOTrainer
from retrain.config import ModelConfig
from retrain.engine.transformers_forward import SlotForward
from retrain.errors import BackendFailure
from retrain.training import train

SMALL: dict[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
}


def workload(**changed: Any) -> Workload:
    base = Workload(3, 128, 0, 0, torch.float32, None, "adamw_torch")
    return replace(base, **changed)


def build(config: PretrainedConfig, dtype: torch.dtype) -> Any:
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).train()
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    return model


def kept_for_backward(model: Any, work: Workload) -> int:
    """Bytes of the distinct tensors that autograd saves in a forward pass, weights apart."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.randint(0, 1000, (work.rows, work.row_tokens))
    seen = torch.ones_like(ids)
    seen[0, :3] = 0
    labels = ids.masked_fill(seen == 0, -100)
    half = torch.autocast("cpu", dtype=torch.bfloat16, enabled=work.autocast is not None)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), half:
        model(input_ids=ids, attention_mask=seen, labels=labels, fused_lm_head=True)
    return sum(kept.values())


@pytest.mark.parametrize("kind", [Qwen3Config, LlamaConfig])
@pytest.mark.parametrize(
    ("dtype", "autocast"),
    [
        (torch.float32, None),
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, None),
    ],
)
def test_activations_are_what_autograd_keeps(kind: Any, dtype: Any, autocast: Any) -> None:
    model = build(kind(**SMALL), dtype)
    work = workload(weight_type=dtype, autocast=autocast)
    reckoned = activation_bytes(outline(model), work)
    assert reckoned == pytest.approx(kept_for_backward(model, work), rel=0.06)


def test_outline_needs_no_weights(tmp_path: Path) -> None:
    config = Qwen3Config(**SMALL, tie_word_embeddings=True)
    config.architectures = ["Qwen3ForCausalLM"]
    config.save_pretrained(tmp_path)
    found = read_outline(ModelConfig(name_or_path=str(tmp_path)))
    assert found is not None
    real = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp_path))
    assert found.parameters == real.num_parameters()
    assert found.qk_norm
    assert found.head == "lm_head"
    assert {layer.name for layer in found.linear} == {
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    }


def test_model_that_cannot_be_read_has_no_estimate(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert read_outline(ModelConfig(name_or_path=str(tmp_path))) is None


def test_weights_gradients_and_moments_are_those_of_the_real_optimizer() -> None:
    model = AutoModelForCausalLM.from_config(Qwen3Config(**SMALL))
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(0, 1000, (2, 20))
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    found = estimate(outline(model), workload())
    assert found.weights == sum(p.nbytes for p in model.parameters())
    assert found.gradients == sum(p.grad.nbytes for p in model.parameters())
    moments = [s[k].nbytes for s in optimizer.state.values() for k in ("exp_avg", "exp_avg_sq")]
    assert found.optimizer == sum(moments)


def test_adapter_has_the_numbers_that_peft_makes() -> None:
    peft = pytest.importorskip("peft")
    model = AutoModelForCausalLM.from_config(Qwen3Config(**SMALL))
    shape = outline(model)
    work = workload(adapter=(shape.linear, 8))
    lora = peft.LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
    wrapped = peft.get_peft_model(model, lora)
    assert adapter_parameters(work) == wrapped.get_nb_trainable_parameters()[0]
    whole, small = estimate(shape, workload()), estimate(shape, work)
    assert small.optimizer == 2 * small.gradients == 2 * small.adapter < whole.optimizer / 10


def test_settings_lower_what_they_are_said_to_lower() -> None:
    shape = outline(AutoModelForCausalLM.from_config(Qwen3Config(**SMALL)))
    base = workload(rows=8, slots=16, slot_budget=2**40)
    full = estimate(shape, base)
    assert estimate(shape, replace(base, rows=4)).activations == full.activations // 2
    assert estimate(shape, replace(base, slots=8)).kv_slots == full.kv_slots // 2
    assert estimate(shape, replace(base, checkpointing=True)).activations < full.activations / 2
    four = replace(base, bits=4, adapter=(shape.linear, 8))
    assert estimate(shape, four).weights < full.weights / 2
    assert estimate(shape, replace(base, reference=True)).reference == full.weights
    assert estimate(shape, replace(base, optimizer="sgd")).optimizer == 0


def test_plan_shows_the_parts_and_the_peak(config: Any) -> None:
    memory = TRLBackend().plan(config(kl_coef=0.1)).memory
    assert set(memory) == {
        "weights",
        "reference",
        "gradients",
        "optimizer",
        "activations",
        "logits",
        "kv_slots",
        "peak",
    }
    assert memory["peak"] < sum(size for name, size in memory.items() if name != "peak")


def test_micro_batch_shrinks_until_it_fits(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    free = TRLBackend().plan(config())
    assert free.sizes["micro_batch"] == 6
    tight = free.memory["peak"] - 1
    monkeypatch.setattr(memory_planning, "device_bytes", lambda cuda: tight)
    shrunk = TRLBackend().plan(config())
    assert shrunk.sizes["micro_batch"] == 4
    assert shrunk.arguments["gradient_accumulation_steps"] == 3
    assert shrunk.memory["peak"] <= tight
    asked = TRLBackend().plan(config(trl_per_device_train_batch_size=6))
    assert asked.sizes["micro_batch"] == 6, "what is asked for stands, with a warning"
    (text,) = [p.message for p in asked.problems if "of memory" in p.message]
    assert "lower algorithm.hyperparameters.trl_per_device_train_batch_size (now 6)" in text


@pytest.mark.slow
def test_trainer_out_of_memory_says_what_to_lower(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, model: Any, inputs: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(BridgedGRPOTrainer, "_compute_loss", fail)
    with pytest.raises(BackendFailure) as caught:
        train(config(num_iterations=1))
    text = str(caught.value)
    assert "Tried to allocate 2.00 GiB" in text
    assert "the plan reckoned with" in text
    assert "trl_per_device_train_batch_size (now 6)" in text
    assert "max_response_len (now 60)" in text
    assert "rollout.concurrency (now 64)" in text
    assert "trl_gradient_checkpointing: true" in text
    assert "model.peft" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    ],
)
def test_engine_out_of_memory_says_what_to_lower(
    config: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(self: Any, spans: Any) -> Any:
        raise error

    monkeypatch.setattr(SlotForward, "__call__", fail)
    with pytest.raises(BackendFailure) as caught:
        train(config(num_iterations=1, max_context_len=200))
    text = str(caught.value)
    assert "with up to 64 episodes x" in text
    assert "lower rollout.concurrency" in text
    assert "at most 200 tokens" in text


@pytest.mark.slow
def test_other_failures_are_not_called_a_lack_of_memory(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, model: Any, inputs: Any) -> Any:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(BridgedGRPOTrainer, "_compute_loss", fail)
    with pytest.raises(BackendFailure) as caught:
        train(config(num_iterations=1))
    assert "lower" not in str(caught.value)
