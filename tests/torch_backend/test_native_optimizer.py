"""The optimizer and its learning rate are those of transformers' trainers; bad numbers stop it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, get_scheduler

from backends.torch.backend import TorchBackend
from backends.torch.compute.futures import WorkQueue
from backends.torch.compute.logprobs import score
from backends.torch.compute.micro_batches import make_micro_batch
from backends.torch.compute.schedule import OptimizerSettings, make_optimizer
from backends.torch.configs import RLTrainingConfig, SFTTrainingConfig
from backends.torch.factory import create_pytorch_backend
from backends.torch.rows import TrainingBatch
from retrain.errors import BackendFailure, ConfigError, DataError


@pytest.mark.parametrize("warmup", [0, 3])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_the_learning_rate_is_that_of_transformers(schedule: Any, warmup: int) -> None:
    settings = OptimizerSettings(
        learning_rate=1e-3, schedule=schedule, warmup_steps=warmup, total_steps=10
    )
    optimizer = torch.optim.AdamW([nn.Parameter(torch.ones(1))], lr=1e-3)
    name = "constant_with_warmup" if schedule == "constant" else schedule
    theirs = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=10)
    for step in range(11):
        assert settings.learning_rate_at(step) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        theirs.step()


@pytest.mark.parametrize("kind", ["qwen3", "gpt2", "gpt_oss"])
def test_weights_are_decayed_as_by_transformers_trainer(kind: str) -> None:
    """Gpt-oss has biases that are matrices, and vectors that are neither norm nor bias."""
    trainer = pytest.importorskip("transformers.trainer", reason="needs accelerate")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, num_hidden_layers=1))
    optimizer = make_optimizer(model, OptimizerSettings(weight_decay=0.1))
    ours = {
        id(weight)
        for group in optimizer.param_groups
        for weight in group["params"]
        if group["weight_decay"]
    }
    names = {name for name, weight in model.named_parameters() if id(weight) in ours}
    theirs = {*trainer.Trainer.get_decay_parameter_names(None, model)}
    assert names == {name for name, _ in model.named_parameters()} & theirs
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    assert count == len([*model.parameters()])


async def test_a_gradient_that_is_not_finite_leaves_the_weights_alone(
    model_dir: Path, samples: Any, tmp_path: Path
) -> None:
    with create_pytorch_backend(str(model_dir), checkpoint_dir=tmp_path) as backend:
        await backend.forward_backward(TrainingBatch.of(samples()).weighted("token"))
        first = next(backend.model.parameters())
        assert first.grad is not None
        first.grad[0, 0] = float("nan")
        before = [weight.detach().clone() for weight in backend.model.parameters()]
        with pytest.raises(BackendFailure, match=r"gradient is nan.*no step was taken"):
            await backend.optim_step()
        pairs = zip(before, backend.model.parameters(), strict=True)
        assert all(torch.equal(old, weight) for old, weight in pairs)
        assert backend.step == 0


@pytest.mark.parametrize("advantage", [-1.0, 1.0])
@pytest.mark.parametrize("odd", [-200.0, float("nan"), float("-inf")])
async def test_logprobs_of_masked_tokens_do_not_matter(
    model_dir: Path, samples: Any, tmp_path: Path, odd: float, advantage: float
) -> None:
    rows = []
    for row in TrainingBatch.of(samples()).rows:
        old = tuple(value if flag else odd for value, flag in zip(row.old, row.mask, strict=True))
        rows.append(replace(row, old=old, advantage=advantage))
    batch = TrainingBatch(tuple(rows)).weighted("token")
    with create_pytorch_backend(str(model_dir), checkpoint_dir=tmp_path) as backend:
        computed, stepped = backend.forward_backward(batch), backend.optim_step()
        metrics = {**await computed, **await stepped}
    assert all(torch.tensor(value).isfinite() for value in metrics.values())


def test_logits_in_bfloat16_are_tempered_in_float32(samples: Any) -> None:
    rows = TrainingBatch.of(samples(2)).rows[:1]
    micro = make_micro_batch(rows, "cpu")
    width = len(rows[0].tokens)
    logits = 8 * torch.randn(1, width, 90, generator=torch.Generator().manual_seed(0))
    logits = logits.bfloat16()

    class Fixed(nn.Module):
        def forward(self, input_ids: Any, use_cache: bool, attention_mask: Any) -> Any:
            return type("Output", (), {"logits": logits})

    found = score(Fixed(), micro, temperature=0.7).logprobs[0]
    start = rows[0].prompt_length
    expected = (logits.float() / 0.7).log_softmax(-1)[0, start - 1 : -1]
    for place, (token, flag) in enumerate(zip(rows[0].tokens[start:], rows[0].mask, strict=True)):
        assert float(found[place]) == pytest.approx(float(expected[place, token]) * flag, abs=1e-5)


def test_weights_in_half_precision_are_refused_or_warned_about(
    config: Any, model_dir: Path
) -> None:
    def problems(dtype: str) -> list[str]:
        section = {"name_or_path": str(model_dir), "torch_dtype": dtype}
        plan = TorchBackend().plan(config(sections={"model": section}, learning_rate=1e-6))
        return [f"{p.severity}: {p}" for p in plan.problems if p.key == "model.torch_dtype"]

    assert problems("auto") == []
    (refused,) = problems("float16")
    assert "error" in refused
    assert "underflow" in refused
    (warned,) = problems("bfloat16")
    assert "warning" in warned
    assert "updates of learning_rate 1e-06 are rounded off" in warned


def test_a_batch_without_samples_is_named() -> None:
    with pytest.raises(DataError, match="has no samples"):
        TrainingBatch.of([])


def test_samples_of_one_rollout_are_one_rollout(samples: Any) -> None:
    """`Sample.index` may number samples; `rollout_id` says whose they are."""
    made = samples(3)
    for place, sample in enumerate(made):
        sample.index, sample.rollout_id = place, min(place, 1)
    batch = TrainingBatch.of(made)
    assert [(row.index, row.part) for row in batch.rows] == [(0, 0), (1, 0), (1, 1)]
    assert [len(step.rows) for step in batch.steps(1)] == [1, 2]


def test_numbers_of_a_loop_that_cannot_be_are_named() -> None:
    with pytest.raises(ConfigError, match=r"RLTrainingConfig.checkpoint_every is 0; expected at"):
        RLTrainingConfig(num_steps=1, checkpoint_every=0)
    with pytest.raises(ConfigError, match=r"RLTrainingConfig.rollouts_per_step is 0"):
        RLTrainingConfig(num_steps=1, rollouts_per_step=0)
    with pytest.raises(ConfigError, match=r"SFTTrainingConfig.checkpoint_every is -1"):
        SFTTrainingConfig(num_steps=1, checkpoint_every=-1)


def test_work_that_has_not_begun_is_dropped_where_asked() -> None:
    import threading

    began, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def first() -> None:
        began.set()
        go_on.wait()
        done.append(1)

    queue = WorkQueue("dropping")
    queue.put(first)
    queue.put(lambda: done.append(2))
    began.wait()
    closing = threading.Thread(target=lambda: queue.close(drop=True))
    closing.start()
    while queue._pool._work_queue.qsize() > 1:
        pass
    go_on.set()
    closing.join()
    assert done == [1]
