"""Supervised fine-tuning through `SFTTrainer`, on the tokens and masks of our own Samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from backends.local.adapters import keep_in_float32, lora_config
from backends.trl.callback import IterationCallback
from backends.trl.checkpoints import complete_checkpoint, run_shape
from backends.trl.demonstration_order import DemonstrationOrder
from backends.trl.session import Session
from bridges.demonstrations import demonstration_samples
from retrain.compose import Composition, make_buffer
from retrain.report.start import read_start
from retrain.rollout.buffer import DataBuffer
from retrain.sample import Sample
from retrain.types import Task

IGNORED = -100
"""The label of a token that is not trained on (torch's cross-entropy)."""


class OrderedSFTTrainer(SFTTrainer):
    """An `SFTTrainer` over rows in our order; its checkpoints carry the place in the data."""

    def __init__(self, *, order: DemonstrationOrder, shape: Mapping[str, Any], **trl: Any) -> None:
        """Make a trainer.

        Args:
            order: The rows of all steps.
            shape: Kept in each checkpoint (`run_shape`).
            **trl: `SFTTrainer`'s own keyword arguments.
        """
        self._order = order
        self._shape = shape
        super().__init__(**trl)

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> DemonstrationOrder:
        return self._order

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        data = self._order.state_after(self.state.global_step)
        complete_checkpoint(self, {"data": data, "shape": self._shape})


def train_sft(session: Session, tasks: Sequence[Task], samples: Sequence[Sample]) -> Any:
    """Train to the end, or until the user stops it.

    Args:
        session: The opened run.
        tasks: The demonstrations.
        samples: What to imitate, one of each demonstration.

    Returns:
        The trainer.

    Raises:
        DataError: The run is resumed with other demonstrations.
    """
    trainer = OrderedSFTTrainer(
        order=_order(session, tasks),
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


def _order(session: Session, tasks: Sequence[Task]) -> DemonstrationOrder:
    start = read_start(session.config.output_dir)

    def buffer_at_the_beginning() -> DataBuffer:
        buffer = make_buffer(session.config, tasks)
        if start is not None:
            buffer.load_state_dict(start.buffer)
        return buffer

    if session.checkpoint is not None and "data" in session.checkpoint.state:
        buffer_at_the_beginning().load_state_dict(session.checkpoint.state["data"])
    sizes = session.plan.sizes
    return DemonstrationOrder(
        tasks,
        buffer_at_the_beginning,
        steps=sizes["optimizer_steps"],
        batch=sizes["rollouts_per_optimizer_step"],
    )


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
