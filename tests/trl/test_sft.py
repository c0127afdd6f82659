"""Supervised fine-tuning: the labels are exactly our loss masks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from backends.trl.sft import IGNORED, CheckpointedSFTTrainer, as_row
from retrain.config import RunConfig
from retrain.sample import Sample, Status
from retrain.training import train

CALL = {"type": "function", "function": {"name": "calculator", "arguments": {"expression": "1+1"}}}
ROWS = [
    {
        "id": f"d{i}",
        "messages": [
            {"role": "user", "content": f"{i}+1 then *2"},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "name": "calculator", "content": str(i + 1)},
            {"role": "assistant", "content": str(2 * i + 2)},
        ],
    }
    for i in range(12)
]


@pytest.fixture
def sft_config(config: Any, tmp_path: Path) -> Any:
    path = tmp_path / "demonstrations.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def make(**hyper: Any) -> RunConfig:
        base = config().model_dump(mode="json")
        base["environment"] = {"type": "calculator"}
        base["prompt_source"] = {"type": "jsonl", "source_config": {"path": str(path)}}
        base["algorithm"] = {
            "name": "sft",
            "hyperparameters": {
                "num_iterations": 6,
                "global_batch_size": 4,
                "learning_rate": 3e-3,
                "max_response_len": 128,
                **hyper,
            },
        }
        return RunConfig.model_validate(base)

    return make


def test_labels_are_the_sampled_tokens_and_nothing_else() -> None:
    sample = Sample(
        tokens=[1, 2, 3, 4, 5],
        response_length=3,
        loss_mask=[1, 0, 1],
        rollout_log_probs=[0.0, 0.0, 0.0],
        status=Status.COMPLETED,
    )
    assert as_row(sample) == {
        "input_ids": [1, 2, 3, 4, 5],
        "labels": [IGNORED, IGNORED, 3, IGNORED, 5],
    }


@pytest.mark.slow
def test_real_trainer_trains_on_assistant_tokens_only(
    sft_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, torch.Tensor]] = []
    original = CheckpointedSFTTrainer.compute_loss

    def watched(self: Any, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        seen.append({k: v.clone() for k, v in inputs.items() if torch.is_tensor(v)})
        tokenizers.append(self.processing_class)
        return original(self, model, inputs, *args, **kwargs)

    tokenizers: list[Any] = []
    monkeypatch.setattr(CheckpointedSFTTrainer, "compute_loss", watched)
    result = train(sft_config())
    assert result.iterations == 6
    assert seen
    for batch in seen:
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True):
            trained = labels != IGNORED
            assert torch.equal(labels[trained], ids[trained])
            text = tokenizers[0].decode(ids[trained])
            assert text.startswith("<tool_call>")
            assert text.count("<|im_end|>") == 2
            assert "tool_response" not in text
            assert "then" not in text


@pytest.mark.slow
def test_imitation_lowers_the_loss(sft_config: Any) -> None:
    from retrain.report.metrics import read_metrics

    result = train(sft_config(num_iterations=20))
    rows = read_metrics(result.run_dir / "metrics.jsonl")
    losses = [row.values["train/loss"] for row in rows]
    assert len(losses) == 20
    assert losses[-1] < 0.5 * losses[0]
    assert (result.model_dir / "model.safetensors").is_file()
