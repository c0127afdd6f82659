"""A whole GRPO run on TRL with images in the prompt, behind it, and in none of a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from seeing import items_of, see_config

from backends.trl import row_images
from backends.trl.row_images import RowImages
from retrain.compose import load_backend
from retrain.engine.transformers_loading import load_model
from retrain.engine.transformers_vision import load_vision
from retrain.vision import ImageLimits

TIS = {"importance_correction": "tis"}
REFERENCE = {"kl_coef": 0.1}
SMALL_STEPS = {"trl_per_device_train_batch_size": 1}


def train(vlm: Path, pictures: tuple[str, str], run: Path, **hyper: Any) -> dict[str, float]:
    config = see_config(vlm, run, items_of(*pictures), hyper={"rollout_batch_size": 3, **hyper})
    backend = load_backend("trl")
    plan = backend.plan(config)
    plan.require_runnable()
    return dict(backend.train(plan).metrics)


@pytest.mark.slow
@pytest.mark.parametrize("hyper", [TIS | REFERENCE, SMALL_STEPS], ids=["scored", "row-by-row"])
def test_the_trainer_sees_what_the_engine_saw(
    vlm: Path, pictures: tuple[str, str], tmp_path: Path, hyper: dict[str, Any]
) -> None:
    metrics = train(vlm, pictures, tmp_path / "run", **hyper)
    assert metrics["train/logprob_abs_diff"] < 1e-5
    assert torch.isfinite(torch.tensor(metrics["train/loss"]))
    assert metrics["train/grad_norm"] > 0
    model = tmp_path / "run" / "model"
    before, after = load_model_of(vlm), load_model_of(model)
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert any("visual" in name for name in moved)
    assert load_vision(see_config(model, tmp_path, ["x"]).model, ImageLimits()).tokens(pictures[0])  # type: ignore[union-attr]
    kept = (tmp_path / "run" / "samples").glob("*.jsonl")
    assert all(json.loads(line) for path in kept for line in path.read_text().splitlines())


@pytest.mark.slow
def test_without_the_rows_images_the_trainer_sees_something_else(
    vlm: Path,
    pictures: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the test above relies on: the logprobs tell whether the images were there."""
    given = RowImages._inputs

    def blank(self: RowImages, *rows: Any) -> dict[str, Any]:
        inputs = given(self, *rows)
        if "pixel_values" in inputs:
            inputs["pixel_values"] = torch.zeros_like(inputs["pixel_values"])
        return inputs

    monkeypatch.setattr(row_images.RowImages, "_inputs", blank)
    metrics = train(vlm, pictures, tmp_path / "run")
    assert metrics["train/logprob_abs_diff"] > 1e-4


def load_model_of(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = load_model(
        see_config(folder, folder, ["x"]).model
    ).state_dict()
    return state
