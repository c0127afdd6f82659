"""TRL's side of `native_step.py`: a real `GRPOTrainer`, whose own loop trains on given rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from multiturn_model import make_tokenizer, qwen3_template
from native_step_work import Work, make_model
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from backends.torch.rows import TrainingBatch


class GivenRows(GRPOTrainer):
    """Trains on rows that are there: nothing is generated or scored, all else is TRL's."""

    given: dict[str, torch.Tensor]

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, torch.Tensor]:
        return dict(self.given)


class _Clock(TrainerCallback):
    """Tells when a step begins and ends: its batch, passes, clipping, optimizer and schedule."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._end()


def train_trl(
    work: Work,
    steps: int,
    *,
    cuda: bool,
    half: bool,
    begin: Callable[[], None],
    end: Callable[[], None],
) -> float:
    """Take optimizer steps with TRL's defaults of optimizer and clipping.

    Args:
        work: The model and its batch.
        steps: How many.
        cuda: Train on the GPU.
        half: Compute in bfloat16; weights stay in float32.
        begin: Called before each step.
        end: Called after it.

    Returns:
        TRL's mean loss.
    """
    passes = work.rows // work.micro
    with tempfile.TemporaryDirectory() as folder:
        trainer = GivenRows(
            model=make_model(work),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=GRPOConfig(
                output_dir=folder,
                use_cpu=not cuda,
                bf16=half,
                max_steps=steps,
                learning_rate=1e-6,
                per_device_train_batch_size=work.micro,
                gradient_accumulation_steps=passes,
                steps_per_generation=passes,
                num_generations=work.micro,
                gradient_checkpointing=work.checkpointing,
                loss_type="dapo",
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict({"prompt": ["-"] * work.rows}),
            processing_class=make_tokenizer(qwen3_template()),
            callbacks=[_Clock(begin, end)],
        )
        trainer.remove_callback(PrinterCallback)
        device = trainer.accelerator.device
        columns = trl_columns(work.batch())
        trainer.given = {name: column.to(device) for name, column in columns.items()}
        return float(trainer.train().training_loss)


def trl_columns(batch: TrainingBatch) -> dict[str, torch.Tensor]:
    """The rows as TRL has them behind its rollouts: completions padded to the longest."""
    rows = batch.rows
    prompt, after = rows[0].prompt_length, max(len(row.mask) for row in rows)

    def right(values: Any) -> list[Any]:
        return [*values, *[0] * (after - len(values))]

    masks = torch.tensor([right(row.mask) for row in rows])
    return {
        "prompt_ids": torch.tensor([row.tokens[:prompt] for row in rows]),
        "prompt_mask": torch.ones(len(rows), prompt, dtype=torch.long),
        "completion_ids": torch.tensor([right(row.tokens[prompt:]) for row in rows]),
        "completion_mask": torch.tensor([right([1] * len(row.mask)) for row in rows]),
        "tool_mask": masks,
        "advantages": torch.tensor([row.advantage for row in rows]),
        "old_per_token_logps": torch.tensor([right(row.old) for row in rows]),
        "num_items_in_batch": masks.sum(),
    }
