"""Weights of TRL's trainer as they leave a run; see `backends.local.exporting`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from backends.local.exporting import (
    ADAPTER,
    MODEL,
    export_weights,
    merge_adapter,
    partial_folder,
    put_in_place,
    writing,
)
from backends.trl.checkpoints import newest_checkpoint
from retrain.config import ModelConfig
from retrain.engine.transformers_vision import copy_image_processor
from retrain.report.run_folder import CHECKPOINTS


def save_final(trainer: Any, model: ModelConfig, run: Path) -> Path:
    """Write the trained weights into a run's folder.

    Args:
        trainer: The trainer, at its end.
        model: What it began from.
        run: The run's folder.

    Returns:
        The folder of the whole weights. An adapter also stands beside it, in `adapter/`.
    """
    whole = run / MODEL
    trained = whole if model.peft is None else run / ADAPTER
    partial = partial_folder(trained)
    if trainer.args.should_save:
        shutil.rmtree(partial, ignore_errors=True)
    trainer.save_model(str(partial))
    if trainer.args.should_save:
        copy_image_processor(model, partial)
        put_in_place(partial, trained)
        if model.peft is not None:
            with writing(whole) as folder:
                merge_adapter(model, trained, folder)
    return whole


def export_run(run: Path, to: Path) -> Path:
    """Write a run's newest weights to a folder of their own.

    Args:
        run: A run's folder.
        to: What to write; must not exist.

    Raises:
        RunFolderError: There are no weights yet, or `to` exists.
        ConfigError: The base of an adapter cannot be loaded.
    """
    checkpoint = newest_checkpoint(run / CHECKPOINTS)
    return export_weights(run, None if checkpoint is None else checkpoint.path, to)
