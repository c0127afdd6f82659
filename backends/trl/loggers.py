"""TRL's loggers (`trl_report_to`) get our metrics too, under our names.

The integrations of transformers put "train/" before every name that they are handed, so ours are
written past them, into the same run of the same logger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def publish(trainer: Any, metrics: Mapping[str, float]) -> None:
    """Write metrics to TensorBoard and Weights & Biases, where the trainer reports to them.

    Args:
        trainer: A trainer; nothing is written on any process but the first.
        metrics: Numbers by canonical name (`retrain.report.metric_names`).
    """
    if not trainer.state.is_world_process_zero:
        return
    step = trainer.state.global_step
    for callback in trainer.callback_handler.callbacks:
        writer = getattr(callback, "tb_writer", None)
        if writer is not None:
            for name, value in metrics.items():
                writer.add_scalar(name, value, step)
        wandb = getattr(callback, "_wandb", None)
        if wandb is not None and wandb.run is not None:
            wandb.log({**metrics, "train/global_step": step})
