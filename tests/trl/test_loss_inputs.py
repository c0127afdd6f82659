"""A real GRPO step: what enters TRL's loss is what we collected, row by row."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from backends.trl.backend import TRLBackend
from retrain.report.samples import read_samples
from retrain.report.trainer_logprobs import read_trainer_logprobs
from retrain.reward.advantages import group_advantages
from retrain.sample import Status

pytestmark = pytest.mark.slow


def run(config: Any) -> Any:
    backend = TRLBackend()
    return backend.train(backend.plan(config))


def unpadded(ids: torch.Tensor, mask: torch.Tensor) -> list[list[int]]:
    return [row[keep.bool()].tolist() for row, keep in zip(ids, mask, strict=True)]


def test_tokens_masks_and_advantages_in_the_loss_are_ours(config: Any, spy: Any) -> None:
    run(config(global_batch_size=6, trl_per_device_train_batch_size=3))
    assert len(spy.batches) == 8, "2 iterations x 2 optimizer steps x 2 micro-batches"
    seen = []
    for batch in spy.batches:
        inputs, samples = batch.inputs, batch.samples()
        seen += [(batch.step // 2, sample.index) for sample in samples]
        assert unpadded(inputs["prompt_ids"], inputs["prompt_mask"]) == [
            s.prompt_ids for s in samples
        ]
        assert unpadded(inputs["completion_ids"], inputs["completion_mask"]) == [
            s.response_ids for s in samples
        ]
        mask = inputs["completion_mask"] * inputs["tool_mask"]
        for row, sample in zip(mask, samples, strict=True):
            expected = sample.loss_mask + [0] * (mask.size(1) - sample.response_length)
            assert row.tolist() == expected
        torch.testing.assert_close(
            inputs["advantages"], torch.tensor([s.advantage for s in samples])
        )
    assert len(set(seen)) == 24, "every row of both iterations once, whatever TRL's order"


def test_advantages_go_by_explicit_group(config: Any, spy: Any) -> None:
    run(config(num_iterations=1))
    rows = spy.batches[0].rows
    assert any(row.advantage for row in rows)
    for group in {row.group_index for row in rows}:
        members = [row for row in rows if row.group_index == group]
        expected = group_advantages("grpo", [row.reward for row in members])
        assert tuple(row.advantage for row in members) == expected


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_engine_and_trainer_agree_on_logprobs(config: Any, spy: Any, temperature: float) -> None:
    run(config(num_iterations=1, temperature=temperature, trl_per_device_train_batch_size=4))
    gaps = []
    for batch in spy.batches:
        mask = (batch.inputs["completion_mask"] * batch.inputs["tool_mask"]).bool()
        engine = batch.inputs["sampling_per_token_logps"]
        gaps.append((batch.logps - engine).abs()[mask])
    gap = torch.cat(gaps)
    assert gap.numel() > 100
    assert gap.mean() < 1e-5
    assert gap.max() < 1e-4


def test_the_trainers_logprobs_are_recorded_for_each_sample(config: Any, spy: Any) -> None:
    result = run(config(num_iterations=2, trl_per_device_train_batch_size=4))
    for iteration in (1, 2):
        samples = list(read_samples(result.run_dir / "samples" / f"{iteration}.jsonl"))
        assert samples
        for sample in samples:
            assert sample.index is not None
            row = read_trainer_logprobs(result.run_dir, iteration, sample.index, 0)
            assert row is not None
            assert [int(value is not None) for value in row] == sample.loss_mask
            pairs = zip(row, sample.rollout_log_probs, strict=True)
            assert all(value is None or abs(value - engine) < 1e-4 for value, engine in pairs)


def test_old_logprobs_are_the_engine_s(config: Any, spy: Any) -> None:
    run(config(num_iterations=1, global_batch_size=6))
    for batch in spy.batches:
        for row, sample in zip(batch.inputs["old_per_token_logps"], batch.samples(), strict=True):
            ours = torch.tensor(sample.rollout_log_probs)
            torch.testing.assert_close(row[: sample.response_length], ours)


def test_truncated_importance_weights_the_recomputed_policy(config: Any, spy: Any) -> None:
    run(config(num_iterations=1, importance_correction="tis"))
    (batch, *_) = spy.batches
    samples = batch.samples()
    weights = batch.inputs["advantages"]
    engine = batch.inputs["sampling_per_token_logps"]
    old = batch.inputs["old_per_token_logps"]
    expected = torch.tensor([[s.advantage] for s in samples]) * (old - engine).exp().clamp(max=2.0)
    torch.testing.assert_close(weights, expected)
    mask = (batch.inputs["completion_mask"] * batch.inputs["tool_mask"]).bool()
    torch.testing.assert_close(old[mask], batch.logps[mask], atol=1e-5, rtol=0)


def test_token_mean_is_over_one_optimizer_step(config: Any, spy: Any) -> None:
    """Each step's loss is the sum over its tokens, divided by its own number of tokens."""
    run(config(num_iterations=1, global_batch_size=6, trl_per_device_train_batch_size=3))
    for step in (spy.batches[:2], spy.batches[2:]):
        tokens = sum((b.inputs["completion_mask"] * b.inputs["tool_mask"]).sum() for b in step)
        for batch in step:
            inputs = batch.inputs
            mask = inputs["completion_mask"] * inputs["tool_mask"]
            ratio = (batch.logps - inputs["old_per_token_logps"]).exp()
            advantages = inputs["advantages"].unsqueeze(1)
            clipped = ratio.clamp(0.8, 1.2)
            per_token = -torch.min(ratio * advantages, clipped * advantages)
            torch.testing.assert_close(batch.loss, (per_token * mask).sum() / tokens)


@pytest.mark.parametrize("fails", ["fail_every", "fail_reset_every"])
def test_failed_episode_is_a_row_that_changes_nothing(config: Any, spy: Any, fails: str) -> None:
    """Also one that failed before its first prompt: TRL breaks on an empty completion."""
    environment = {"type": "noisy_environment:Noisy", "env_specific_config": {fails: 4}}
    sections = {"environment": environment}
    run(config(num_iterations=1, sections=sections))
    rows = spy.batches[0].rows
    failed = [row for row in rows if row.status is Status.FAILED]
    assert failed, "the environment breaks in some episodes"
    assert len(rows) == 12, "and their slots stay"
    for batch in spy.batches:
        mask = batch.inputs["completion_mask"] * batch.inputs["tool_mask"]
        trained = 0
        for row, sample in enumerate(batch.samples()):
            if sample.status is Status.FAILED:
                assert mask[row].sum() == 0
                assert batch.inputs["advantages"][row] == 0
            trained += sum(sample.loss_mask)
        assert mask.sum() == trained
    for row in failed:
        members = [m for m in rows if m.group_index == row.group_index and m not in failed]
        expected = group_advantages("grpo", [m.reward for m in members])
        assert tuple(m.advantage for m in members) == expected


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "gspo"])
def test_a_batch_of_which_nothing_is_trained_has_loss_zero(
    config: Any, spy: Any, name: str
) -> None:
    """The number of trained tokens, by which TRL divides, is 0 here."""
    broken = {"type": "noisy_environment:Noisy", "env_specific_config": {"fail_every": 1}}
    sections = {"environment": broken, "rollout": {"max_failure_rate": 1.0}}
    result = run(config(name=name, num_iterations=1, sections=sections))
    assert all(row.status is Status.FAILED for row in spy.batches[0].rows)
    for batch in spy.batches:
        assert (batch.inputs["completion_mask"] * batch.inputs["tool_mask"]).sum() == 0
        assert batch.loss == 0
    assert result.iterations == 1
    weights = spy.trainers[0].model.parameters()
    assert all(torch.isfinite(weight).all() for weight in weights)


def test_truncated_episode_is_trained_on_and_ends_on_a_model_token(config: Any, spy: Any) -> None:
    """TRL would call every row truncated that does not end on eos; the status is ours."""
    run(config(num_iterations=1, max_response_len=30))
    rows = spy.batches[0].rows
    truncated = [row for row in rows if row.status is Status.TRUNCATED]
    assert truncated
    assert all(row.loss_mask[-1] == 1 for row in truncated)
    assert max(row.response_length for row in rows) <= 30


def test_reward_that_trl_logs_is_the_raw_one(config: Any, spy: Any) -> None:
    result = run(config(num_iterations=1))
    rows = spy.batches[0].rows
    mean = sum(row.reward for row in rows) / len(rows)
    assert result.metrics["reward/mean"] == pytest.approx(mean)
    logged = [entry for entry in spy.trainers[0].state.log_history if "reward" in entry]
    assert logged[0]["reward"] == pytest.approx(mean, abs=1e-6)


def test_generation_keeps_the_cache_although_checkpointing_is_on(config: Any, spy: Any) -> None:
    result = run(config(num_iterations=1, trl_gradient_checkpointing=True))
    assert result.metrics["rollout/cached_tokens"] > 0
    assert result.metrics["train/logprob_abs_diff"] < 1e-5
    assert spy.trainers[0].model.training


def test_reference_model_is_the_one_on_disk(config: Any, spy: Any) -> None:
    run(config(num_iterations=1, kl_coef=0.1))
    (batch, *_) = spy.batches
    mask = (batch.inputs["completion_mask"] * batch.inputs["tool_mask"]).bool()
    reference = batch.inputs["ref_per_token_logps"]
    torch.testing.assert_close(reference[mask], batch.logps[mask], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "loss_type", "level"),
    [
        ("dr_grpo", "dr_grpo", "token"),
        ("rloo", "dapo", "token"),
        ("gspo", "dapo", "sequence"),
    ],
)
def test_every_algorithm_trains(
    config: Any, spy: Any, name: str, loss_type: str, level: str
) -> None:
    run(config(name=name, num_iterations=1))
    trainer, rows = spy.trainers[0], spy.batches[0].rows
    assert (trainer.loss_type, trainer.importance_sampling_level) == (loss_type, level)
    for group in {row.group_index for row in rows}:
        members = [row for row in rows if row.group_index == group]
        expected = group_advantages(name, [row.reward for row in members])
        assert tuple(row.advantage for row in members) == expected
    assert all(torch.isfinite(batch.loss) for batch in spy.batches)
