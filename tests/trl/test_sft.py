"""Supervised fine-tuning: the labels are exactly our loss masks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from backends.trl.checkpoints import newest_checkpoint
from backends.trl.sft import IGNORED, OrderedSFTTrainer, as_row
from retrain.compose import make_buffer, make_tasks
from retrain.config import RunConfig
from retrain.errors import ConfigError, DataError, RetrainError
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
    original = OrderedSFTTrainer.compute_loss

    def watched(self: Any, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        seen.append({k: v.clone() for k, v in inputs.items() if torch.is_tensor(v)})
        tokenizers.append(self.processing_class)
        return original(self, model, inputs, *args, **kwargs)

    tokenizers: list[Any] = []
    monkeypatch.setattr(OrderedSFTTrainer, "compute_loss", watched)
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


class LossRows:
    """The demonstrations that enter TRL's loss, in order; `stop_at` ends the run at a row."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stop_at: int | None = None
        self.ids: list[str] = []
        original = OrderedSFTTrainer.compute_loss

        def watched(trainer: Any, model: Any, inputs: dict[str, Any], *args: Any, **kw: Any) -> Any:
            if self.stop_at is not None and len(self.ids) >= self.stop_at:
                raise RuntimeError("the machine stops")
            for ids in inputs["input_ids"]:
                question = re.search(r"(\d+)\+1 then", trainer.processing_class.decode(ids))
                assert question is not None
                self.ids.append(f"d{question[1]}")
            return original(trainer, model, inputs, *args, **kw)

        monkeypatch.setattr(OrderedSFTTrainer, "compute_loss", watched)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> LossRows:
    return LossRows(monkeypatch)


def drawn(config: RunConfig, count: int) -> list[str]:
    buffer = make_buffer(config, make_tasks(config))
    return [request.task.id for request in buffer.draw(count)]


@pytest.mark.slow
@pytest.mark.parametrize("batch", [4, 8])
def test_rows_reach_the_loss_in_the_order_of_the_data_buffer(
    sft_config: Any, rows: LossRows, batch: int
) -> None:
    config = sft_config(
        num_iterations=2 * len(ROWS) // batch,
        global_batch_size=batch,
        trl_per_device_train_batch_size=2,
    )
    train(config)

    assert rows.ids == drawn(config, 2 * len(ROWS))
    first, second = rows.ids[: len(ROWS)], rows.ids[len(ROWS) :]
    assert sorted(first) == sorted(second) == sorted(row["id"] for row in ROWS)
    assert first != second, "every epoch has an order of its own"


@pytest.mark.slow
def test_resumed_run_goes_on_with_the_row_after_the_checkpoint(
    sft_config: Any, rows: LossRows
) -> None:
    config = sft_config(
        num_iterations=6, global_batch_size=8, save_interval=2, trl_per_device_train_batch_size=2
    )
    rows.stop_at = 3 * 8 + 4
    with pytest.raises(RetrainError, match="the machine stops"):
        train(config)
    checkpoint = newest_checkpoint(config.output_dir / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step == 2
    data = checkpoint.state["data"]
    assert (data["drawn"], data["epoch"], data["position"]) == (16, 1, 4), "in the second epoch"

    rows.stop_at, rows.ids = None, []
    train(config, resume=True)
    assert rows.ids == drawn(config, 6 * 8)[16:]


@pytest.mark.slow
def test_resume_with_other_demonstrations_is_refused(sft_config: Any) -> None:
    config = sft_config(num_iterations=2, save_interval=1)
    train(config)
    path = Path(config.prompt_source.source_config["path"])
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:-1]))
    longer = sft_config(num_iterations=4, save_interval=1)
    with pytest.raises(DataError, match="0 appeared, 1 vanished, 0 changed"):
        train(longer, resume=True)


def test_option_that_would_change_the_order_is_refused(sft_config: Any) -> None:
    from backends.trl.backend import TRLBackend

    config = sft_config(trl_train_sampling_strategy="sequential")
    with pytest.raises(ConfigError, match="the order of tasks is the data buffer's"):
        TRLBackend().plan(config)
