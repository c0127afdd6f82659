"""What a run of the native loop takes, reckoned before the weights are read, and measured."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconConfig,
    GPT2Config,
    MambaConfig,
    OPTConfig,
    PretrainedConfig,
    Qwen3Config,
)

from backends.local.activations import activation_bytes
from backends.local.fitting import device_bytes
from backends.local.memory import Workload, estimate
from backends.local.outline import outline
from backends.torch.backend import TorchBackend
from backends.torch.compute import head
from backends.torch.compute.passes import PassSettings, forward_backward
from backends.torch.objective import PolicyObjective
from backends.torch.processes.ranks import Ranks
from backends.torch.rows import TrainingBatch, TrainingRow
from backends.torch.run import memory_planning
from backends.torch.run.memory_planning import MemoryPlan, head_bytes
from retrain.errors import BackendFailure

ROWS, TOKENS, PROMPT, WORDS = 3, 128, 32, 8000
SMALL: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
}


def full_batch() -> TrainingBatch:
    """Rows as long as they can be, every token of their responses trained."""
    rng, response = random.Random(0), TOKENS - PROMPT
    rows = [
        TrainingRow(
            tokens=tuple(rng.randrange(WORDS) for _ in range(TOKENS)),
            mask=(1,) * response,
            old=(-5.0,) * response,
            advantage=1.0,
            index=index,
        )
        for index in range(ROWS)
    ]
    return TrainingBatch(tuple(rows)).weighted("token")


def measured_peak(model: Any, autocast: torch.dtype | None) -> int:
    """Bytes at most in a micro-batch that is not the first of its step, its gradients included."""
    batch, how = full_batch(), PassSettings(autocast=autocast)
    forward_backward(model, batch.rows, PolicyObjective(), how, Ranks())
    now = peak = sum(parameter.grad.nbytes for parameter in model.parameters())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        forward_backward(model, batch.rows, PolicyObjective(), how, Ranks())
    assert found.profiler is not None
    events = found.profiler.kineto_results.events()  # type: ignore[union-attr]
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    for _, size in sorted(changes):
        now += size
        peak = max(peak, now)
    return peak


@pytest.mark.parametrize(
    ("dtype", "autocast", "tile"),
    [
        (torch.float32, None, 2**26),
        (torch.float32, None, 64 * WORDS),
        (torch.bfloat16, None, 2**26),
        (torch.float32, torch.bfloat16, 2**26),
    ],
)
def test_the_backward_pass_takes_what_is_reckoned(
    dtype: Any, autocast: Any, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "TILE_NUMBERS", tile)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(Qwen3Config(**SMALL), dtype=dtype).train()
    work = Workload(ROWS, TOKENS, 0, 0, dtype, autocast, "adamw_torch")
    shape = outline(model)
    found = estimate(shape, work, head_bytes(shape, work, ROWS * (TOKENS - PROMPT)))
    reckoned = found.gradients + found.activations + found.logits
    assert reckoned == pytest.approx(measured_peak(model, autocast), rel=0.06)


@pytest.mark.parametrize(
    "shape",
    [
        GPT2Config(n_embd=32, n_layer=2, n_head=4),
        BloomConfig(hidden_size=32, n_layer=2, n_head=4),
        FalconConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
        OPTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128),
        MambaConfig(hidden_size=32, num_hidden_layers=2),
    ],
    ids=lambda shape: shape.model_type,
)
def test_models_of_other_shapes_are_reckoned_too(shape: PretrainedConfig) -> None:
    """Their configurations call the sizes by other names, or have none of them."""
    with torch.device("meta"):
        found = outline(AutoModelForCausalLM.from_config(shape))
    work = Workload(ROWS, TOKENS, 0, 0, torch.float32, None, "adamw_torch")
    each = activation_bytes(found, work) / (2 * ROWS * TOKENS)
    assert 4 * (4 * 32 + 4 * 2 * 32) <= each <= 4 * (4 * 32 + 4 * 4 * 32) + 8 * 4 * 32 + 4 * TOKENS
    assert head_bytes(found, work, ROWS * TOKENS) > 0


def test_each_process_reckons_with_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        def __init__(self, place: int) -> None:
            self.total_memory = (place + 1) * 1000

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", Properties)
    for rank, size in (("0", 1000), ("1", 2000), ("2", 2000)):  # the third is refused later
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert device_bytes(cuda=True) == size


def test_short_prompts_leave_more_tokens_to_train(config: Any) -> None:
    """Twelve rows of at most 60 answer tokens: 720, though prompts may take all but 420 of 900."""
    made = config(max_prompt_len=68, torch_micro_batch_tokens=900)
    plan = TorchBackend().plan(made)
    shape = outline(AutoModelForCausalLM.from_config(Qwen3Config(**SMALL)))
    memory = MemoryPlan(made, shape, plan.arguments, plan.sizes)
    work = memory.workload(900)
    assert (work.rows, work.row_tokens) == (7, 128)
    assert memory.estimated().logits == head_bytes(shape, work, 720)


def test_plan_shows_the_parts_and_the_peak(config: Any) -> None:
    memory = TorchBackend().plan(config(kl_coef=0.1)).memory
    parts = "weights reference gradients optimizer activations logits kv_slots peak"
    assert set(memory) == set(parts.split())
    assert memory["peak"] < sum(size for name, size in memory.items() if name != "peak")


def test_micro_batches_are_as_large_as_fit(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    free = TorchBackend().plan(config(max_prompt_len=68))
    assert free.arguments["micro_batch_tokens"] == 16384
    tight = free.memory["peak"] - 1
    monkeypatch.setattr(memory_planning, "device_bytes", lambda cuda: tight)
    shrunk = TorchBackend().plan(config(max_prompt_len=68))
    assert shrunk.arguments["micro_batch_tokens"] == 11 * (68 + 60)
    assert shrunk.sizes["tokens_per_pass"] == 11 * (68 + 60)
    assert shrunk.memory["peak"] <= tight
    assert not [p for p in shrunk.problems if "of memory" in p.message]
    asked = TorchBackend().plan(config(max_prompt_len=68, torch_micro_batch_tokens=2000))
    assert asked.arguments["micro_batch_tokens"] == 2000, "what is asked for stands"
    (text,) = [p.message for p in asked.problems if "of memory" in p.message]
    assert f"set algorithm.hyperparameters.torch_micro_batch_tokens: {11 * 128}; lower" in text
    assert "torch_micro_batch_tokens (now 2000)" in text
    monkeypatch.setattr(memory_planning, "device_bytes", lambda cuda: 1000)
    hopeless = TorchBackend().plan(config(max_prompt_len=68))
    (text,) = [p.message for p in hopeless.problems if "of memory" in p.message]
    assert "no algorithm.hyperparameters.torch_micro_batch_tokens is small enough" in text


def test_several_processes_share_what_is_kept(config: Any) -> None:
    made = config(kl_coef=0.1)
    plan = TorchBackend().plan(made)
    shape = outline(AutoModelForCausalLM.from_config(Qwen3Config(**SMALL)))
    alone = MemoryPlan(made, shape, plan.arguments, plan.sizes).estimated()
    four = MemoryPlan(made, shape, plan.arguments, {**plan.sizes, "processes": 4}).estimated()
    for part in ("weights", "reference", "gradients", "optimizer"):
        assert getattr(four, part) == getattr(alone, part) // 4
    assert four.activations == alone.activations / 4, "three rows of twelve"
    assert alone.gathered == 0 < four.gathered < alone.weights


@pytest.mark.slow
def test_running_out_of_memory_says_what_to_lower(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any, **named: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr("backends.torch.compute.passes.score", fail)
    backend = TorchBackend()
    with pytest.raises(BackendFailure) as caught:
        backend.train(backend.plan(config(num_iterations=1)))
    text = str(caught.value)
    assert "Tried to allocate 2.00 GiB" in text
    assert "the plan reckoned with" in text
    assert "torch_micro_batch_tokens (now 16384)" in text
    assert "max_response_len (now 60)" in text
    assert "torch_gradient_checkpointing: true" in text
