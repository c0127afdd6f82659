"""Batches that are trained on more than once, or later than they were sampled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from same_training import assert_same_training

from backends.local.checkpoints import MARKER
from backends.trl.backend import TRLBackend
from backends.trl.checkpoints import newest_checkpoint
from retrain.engine.transformers_engine import TransformersEngine

pytestmark = pytest.mark.slow

STALE = 0.5
"""How much an older policy's logprobs are moved by in these tests."""


def run(config: Any) -> Any:
    backend = TRLBackend()
    return backend.train(backend.plan(config))


def mask_of(batch: Any) -> torch.Tensor:
    return (batch.inputs["completion_mask"] * batch.inputs["tool_mask"]).bool()


def engine_logps(batch: Any) -> torch.Tensor:
    """[B, T] the logprobs of our samples, padded with 0."""
    width = batch.inputs["completion_ids"].size(1)
    rows = [s.rollout_log_probs + [0.0] * (width - s.response_length) for s in batch.samples()]
    return torch.tensor(rows)


def weights(config: Any) -> dict[str, torch.Tensor]:
    return load_file(run(config).model_dir / "model.safetensors")


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves the engine's logprobs, as if an older policy had sampled the tokens."""
    move_logprobs(monkeypatch, STALE)


def move_logprobs(monkeypatch: pytest.MonkeyPatch, by: float) -> None:
    original = TransformersEngine.generate

    async def older(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = await original(self, *args, **kwargs)
        return replace(answer, logprobs=tuple(value - by for value in answer.logprobs))

    monkeypatch.setattr(TransformersEngine, "generate", older)


def test_inner_epochs_see_each_row_again_with_the_same_old_logprobs(config: Any, spy: Any) -> None:
    result = run(
        config(
            num_iterations=1,
            global_batch_size=6,
            trl_per_device_train_batch_size=3,
            trl_num_iterations=3,
        )
    )
    assert spy.trainers[0].state.global_step == 6, "12 rows / 6 x 3 passes"
    assert (result.iterations, len(spy.batches)) == (1, 12)
    seen = Counter(sample.index for batch in spy.batches for sample in batch.samples())
    assert set(seen.values()) == {3}
    assert len(seen) == 12
    for batch in spy.batches:
        old = batch.inputs["old_per_token_logps"]
        torch.testing.assert_close(old[mask_of(batch)], engine_logps(batch)[mask_of(batch)])
    first, last = spy.batches[0], spy.batches[-1]
    assert ratio(first).sub(1).abs().max() < 1e-4
    assert ratio(last).sub(1).abs().max() > 1e-2
    assert result.metrics["train/logprob_abs_diff"] < 1e-5, "measured before the weights move"


def ratio(batch: Any) -> torch.Tensor:
    old = batch.inputs["old_per_token_logps"]
    return (batch.logps - old).exp()[mask_of(batch)]


def test_second_optimizer_step_is_off_policy_by_the_engine_s_logprobs(
    config: Any, spy: Any
) -> None:
    run(config(num_iterations=1, global_batch_size=6, learning_rate=1e-2, kl_coef=0.1))
    first, second = spy.batches
    assert (first.step, second.step) == (0, 1)
    assert ratio(first).sub(1).abs().max() < 1e-4
    assert ratio(second).sub(1).abs().max() > 1e-2
    assert not {s.index for s in first.samples()} & {s.index for s in second.samples()}
    for batch in spy.batches:
        mask, inputs = mask_of(batch), batch.inputs
        weight = (batch.logps - engine_logps(batch)).exp()
        advantages = inputs["advantages"].unsqueeze(1)
        gain = torch.min(weight * advantages, weight.clamp(0.8, 1.2) * advantages)
        toward = inputs["ref_per_token_logps"] - batch.logps
        k3 = toward.exp() - toward - 1
        expected = ((0.1 * k3 - gain) * mask).sum() / mask.sum()
        torch.testing.assert_close(batch.loss, expected)


def test_stale_samples_are_weighed_by_the_policy_that_wrote_them(
    config: Any, spy: Any, stale: None
) -> None:
    run(config(num_iterations=1, trl_per_device_train_batch_size=4))
    for batch in spy.batches:
        expected = torch.full_like(ratio(batch), STALE).exp()
        torch.testing.assert_close(ratio(batch), expected, atol=1e-4, rtol=0)


def test_the_truncated_importance_weight_is_capped(
    config: Any, spy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_logprobs(monkeypatch, 3.0)
    run(config(num_iterations=1, importance_correction="tis"))
    for batch in spy.batches:
        own = torch.tensor([[s.advantage] for s in batch.samples()])
        gap = (batch.inputs["advantages"] - own * 2.0)[mask_of(batch)]
        assert gap.abs().max() < 1e-4, "min(exp(trainer - engine), 2), and not exp(3)"


def test_truncated_importance_holds_over_micro_batches_and_steps(
    config: Any, spy: Any, stale: None
) -> None:
    run(
        config(
            num_iterations=1,
            global_batch_size=6,
            trl_per_device_train_batch_size=3,
            learning_rate=1e-2,
            importance_correction="tis",
        )
    )
    assert [batch.step for batch in spy.batches] == [0, 0, 1, 1]
    for batch in spy.batches:
        mask, inputs = mask_of(batch), batch.inputs
        own = torch.tensor([[s.advantage] for s in batch.samples()])
        weight = torch.full(mask.shape, STALE).exp()
        gap = (inputs["advantages"] - own * weight)[mask]
        assert gap.abs().max() < 1e-4, "each token weighs exp(trainer - engine)"
        fresh = engine_logps(batch) + STALE
        old = inputs["old_per_token_logps"]
        torch.testing.assert_close(old[mask], fresh[mask], atol=1e-4, rtol=0)
    assert ratio(spy.batches[0]).sub(1).abs().max() < 1e-4
    assert ratio(spy.batches[-1]).sub(1).abs().max() > 1e-2


@pytest.mark.parametrize(
    "hyper",
    [
        {"kl_coef": 0.1},
        {"loss_aggregation": "sequence", "importance_correction": "tis"},
        {"name": "dr_grpo"},
        {"name": "gspo", "trl_num_iterations": 2},
    ],
    ids=["token", "sequence", "dr_grpo", "gspo"],
)
def test_what_is_learned_does_not_depend_on_the_micro_batch(
    config: Any, tmp_path: Path, model_dir: Path, hyper: Any
) -> None:
    """Gradients accumulate to those of the whole batch. SGD, since Adam amplifies float noise."""
    shared = {"num_iterations": 1, "global_batch_size": 6, "trl_optim": "sgd", **hyper}
    shared = {**shared, "learning_rate": 1.0, "max_grad_norm": 1e9}
    found = []
    for micro in (6, 2):
        made = config(**shared, trl_per_device_train_batch_size=micro)
        made = made.model_copy(update={"output_dir": tmp_path / str(micro)})
        found.append(weights(made))
    assert_same_training(load_file(model_dir / "model.safetensors"), *found)


def test_checkpoints_fall_between_iterations_and_resume_to_the_same_weights(
    config: Any, tmp_path: Path, model_dir: Path
) -> None:
    """Two optimizer steps times two passes make an iteration of four steps."""
    whole = config(num_iterations=4, save_interval=2, global_batch_size=6, trl_num_iterations=2)
    one = weights(whole)
    half = whole.model_copy(update={"output_dir": tmp_path / "half"})
    run(half)
    found = {p.name for p in (half.output_dir / "checkpoints").glob("checkpoint-*")}
    assert found == {"checkpoint-8", "checkpoint-16"}
    newest = newest_checkpoint(half.output_dir / "checkpoints")
    assert newest is not None
    (newest.path / MARKER).unlink()
    backend = TRLBackend()
    result = backend.train(backend.plan(half), resume=True)
    assert result.iterations == 4
    other = load_file(result.model_dir / "model.safetensors")
    assert_same_training(load_file(model_dir / "model.safetensors"), one, other)
