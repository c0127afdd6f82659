"""The gradients of a whole model: as TRL's for the same batch, however it is cut up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backends.torch.compute.passes import LossNotFinite, PassSettings, forward_backward, score_rows
from backends.torch.losses import TIS_CAP
from backends.torch.objective import ImitationObjective, PolicyObjective
from backends.torch.processes.ranks import Ranks
from backends.torch.rows import TrainingBatch
from retrain.config import ModelConfig
from retrain.engine.transformers_loading import load_model

PLAIN = PassSettings()
LONGEST = 16


@pytest.fixture
def model(model_dir: Path) -> Any:
    torch.set_num_threads(1)
    return load_model(ModelConfig(name_or_path=str(model_dir)))


def gradient(model: Any) -> torch.Tensor:
    found = [parameter.grad.flatten() for parameter in model.parameters()]
    model.zero_grad()
    return torch.cat(found).double()


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


def trl_gradient(model: Any, batch: TrainingBatch, folder: Path, **config: Any) -> torch.Tensor:
    """The gradient that a real `GRPOTrainer` computes of the same rows, in its own layout."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    count = len(batch.rows)
    arguments = GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=count,
        num_generations=count,
        steps_per_generation=1,
        max_completion_length=LONGEST,
        scale_rewards="none",
        report_to="none",
        gradient_checkpointing=False,
        **config,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["-"] * count}),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    trainer._compute_loss(trainer.model, trl_inputs(batch)).backward()
    return gradient(trainer.model)


def trl_inputs(batch: TrainingBatch) -> dict[str, torch.Tensor]:
    """Prompts padded on the left, completions on the right."""
    rows = batch.rows
    before = max(row.prompt_length for row in rows)
    after = max(len(row.mask) for row in rows)

    def left(values: Any) -> list[Any]:
        return [*[0] * (before - len(values)), *values]

    def right(values: Any) -> list[Any]:
        return [*values, *[0] * (after - len(values))]

    masks = torch.tensor([right(row.mask) for row in rows])
    return {
        "prompt_ids": torch.tensor([left(row.tokens[: row.prompt_length]) for row in rows]),
        "prompt_mask": torch.tensor([left([1] * row.prompt_length) for row in rows]),
        "completion_ids": torch.tensor([right(row.tokens[row.prompt_length :]) for row in rows]),
        "completion_mask": torch.tensor([right([1] * len(row.mask)) for row in rows]),
        "tool_mask": masks,
        "advantages": torch.tensor([row.advantage for row in rows]),
        "old_per_token_logps": torch.tensor([right(row.old) for row in rows], dtype=torch.float32),
        "num_items_in_batch": masks.sum(),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aggregation", "loss_type"), [("token", "dapo"), ("sequence", "grpo"), ("constant", "dr_grpo")]
)
def test_gradients_are_trls(
    model: Any, samples: Any, tmp_path: Path, aggregation: Any, loss_type: str
) -> None:
    pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
    model = model.double()
    batch = TrainingBatch.of(samples()).weighted(aggregation, LONGEST)
    forward_backward(model, batch.rows, PolicyObjective(), PLAIN, Ranks())
    ours = gradient(model)
    theirs = trl_gradient(model, batch, tmp_path, loss_type=loss_type)
    assert apart(ours, theirs) < 1e-6


@pytest.mark.parametrize("budget", [1, 40, 10_000])
@pytest.mark.parametrize("packed", [False, True])
def test_gradients_do_not_depend_on_the_layout(
    model: Any, samples: Any, budget: int, packed: bool
) -> None:
    batch = TrainingBatch.of(samples(7)).weighted("sequence")
    objective = PolicyObjective(sequence_level=True)
    whole = forward_backward(model, batch.rows, objective, PLAIN, Ranks())
    expected = gradient(model)
    settings = PassSettings(micro_batch_tokens=budget, packed=packed)
    cut = forward_backward(model, batch.rows, objective, settings, Ranks())
    assert apart(gradient(model), expected) < 1e-5
    assert cut == pytest.approx(whole, rel=1e-4)
    scored = score_rows(model, batch.rows, settings)
    plain = score_rows(model, batch.rows, PLAIN)
    for row, one, other in zip(batch.rows, scored, plain, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
        assert len(one) == len(row.mask)
        assert all(bool(value) == bool(flag) for value, flag in zip(one, row.mask, strict=True))


def test_truncated_importance_scales_the_advantages(model: Any, samples: Any) -> None:
    batch = TrainingBatch.of(samples()).weighted("token")
    scored = score_rows(model, batch.rows, PLAIN)
    corrected = batch.with_old(scored)
    objective = PolicyObjective(truncated_importance=True)
    metrics = forward_backward(model, corrected.rows, objective, PLAIN, Ranks())
    expected = sum(
        -row.advantage * row.weight * min(torch.tensor(new - old).exp().item(), TIS_CAP)
        for row, news in zip(batch.rows, scored, strict=True)
        for new, old, flag in zip(news, row.old, row.mask, strict=True)
        if flag
    )
    assert metrics["train/loss"] == pytest.approx(expected, rel=1e-4)
    gaps = [
        abs(new - old)
        for row, news in zip(batch.rows, scored, strict=True)
        for new, old, flag in zip(news, row.old, row.mask, strict=True)
        if flag
    ]
    assert metrics["train/logprob_abs_diff"] == pytest.approx(sum(gaps) / len(gaps), rel=1e-4)


def test_a_batch_that_trains_nothing_has_a_gradient_of_zero(model: Any, samples: Any) -> None:
    batch = TrainingBatch.of(samples(1)).weighted("token")
    metrics = forward_backward(model, batch.rows, ImitationObjective(), PLAIN, Ranks())
    assert metrics["train/loss"] == 0.0
    assert gradient(model).abs().max() == 0.0


def test_the_samples_of_a_loss_that_is_not_finite_are_named(model: Any, samples: Any) -> None:
    batch = TrainingBatch.of(samples()).weighted("token")
    rows = list(batch.rows)
    broken = [float("nan") if m else 0.0 for m in rows[2].mask]
    rows[2] = TrainingBatch((rows[2],)).with_old([broken]).rows[0]
    with pytest.raises(LossNotFinite, match="on samples 2: no step was taken") as caught:
        forward_backward(model, rows, PolicyObjective(), PLAIN, Ranks())
    assert caught.value.indices == (2,)
