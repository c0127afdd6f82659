"""Supervised fine-tuning through `SFTTrainer`, on the tokens and masks of our own Samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from backends.trl.adapters import keep_in_float32, lora_config
from backends.trl.callback import IterationCallback
from backends.trl.checkpoints import complete_checkpoint, run_shape
from backends.trl.session import Session
from bridges.demonstrations import demonstration_samples
from retrain.compose import Composition
from retrain.sample import Sample
from retrain.types import Task

IGNORED = -100
"""The label of a token that is not trained on (torch's cross-entropy)."""


class CheckpointedSFTTrainer(SFTTrainer):
    """An `SFTTrainer` whose checkpoints carry retrain's completion marker."""

    def __init__(self, *, shape: Mapping[str, Any], **trl: Any) -> None:
        """Make a trainer.

        Args:
            shape: Kept in each checkpoint (`run_shape`).
            **trl: `SFTTrainer`'s own keyword arguments.
        """
        super().__init__(**trl)
        self._shape = shape

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        complete_checkpoint(self, {"shape": self._shape})


def train_sft(session: Session, samples: Sequence[Sample]) -> Any:
    """Train to the end, or until the user stops it.

    Args:
        session: The opened run.
        samples: What to imitate.

    Returns:
        The trainer.
    """
    trainer = CheckpointedSFTTrainer(
        shape=run_shape(session.plan),
        model=session.model,
        processing_class=session.tokenizer,
        args=SFTConfig(**session.plan.arguments),
        peft_config=lora_config(session.config.model.peft),
        train_dataset=Dataset.from_list([as_row(sample) for sample in samples]),
        callbacks=[
            IterationCallback(
                session.recorder, session.interrupt, session.launch, steps_per_iteration=1
            )
        ],
    )
    keep_in_float32(trainer.model, session.config.model.peft)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=session.resume_path)
    return trainer


async def prepare(composition: Composition, tasks: Sequence[Task]) -> list[Sample]:
    """Turn recorded conversations into samples, with the tools of the environment in the prompt.

    Raises:
        DataError: Naming the row that cannot be used.
    """
    environment = composition.environment
    tools = await environment.tools()
    return await demonstration_samples(tasks, composition.renderer, environment.limits, tools)


def as_row(sample: Sample) -> dict[str, list[int]]:
    """A sample as a pre-tokenised row with explicit labels.

    Without `labels`, `SFTTrainer` would train on everything, the prompt and the replies included.
    """
    prompt_labels = [IGNORED] * len(sample.prompt_ids)
    pairs = zip(sample.response_ids, sample.loss_mask, strict=True)
    return {
        "input_ids": sample.tokens,
        "labels": prompt_labels + [token if mask else IGNORED for token, mask in pairs],
    }
