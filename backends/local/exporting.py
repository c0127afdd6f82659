"""Weights as they leave a run: Hugging Face folders, adapters merged into their base."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import AutoTokenizer

from backends.local.adapters import ADAPTER_CONFIG
from retrain.config import ModelConfig, load_config
from retrain.engine.transformers_loading import load_model, quiet_transformers
from retrain.engine.transformers_vision import copy_image_processor
from retrain.errors import ConfigError, RunFolderError
from retrain.report.result import RESULT
from retrain.report.run_folder import CONFIG

MODEL = "model"
"""Folder of a run that holds its final weights, whole."""

ADAPTER = "adapter"
"""Folder of a run that holds its final adapter, where it trained one."""

_TRAINER_STATE = shutil.ignore_patterns(
    *("*.pt", "*.pth", "*.bin", "*_state.json"),
    *("global_step*", "latest", "zero_to_*.py"),  # DeepSpeed's
    "optimizer",  # a folder of the torch backend's
)


def set_aside(run: Path) -> None:
    """Move the weights and the result of an earlier end aside, since the run goes on.

    Otherwise a run that is killed later would seem to have ended, with older weights.
    """
    (run / RESULT).unlink(missing_ok=True)
    for name in (MODEL, ADAPTER):
        if (run / name).is_dir():
            aside = run / "superseded"
            aside.mkdir(exist_ok=True)
            taken = len(list(aside.glob(f"{name}-*")))
            os.replace(run / name, aside / f"{name}-{taken + 1}")


def merge_adapter(model: ModelConfig, adapter: Path, to: Path) -> None:
    """Write base + adapter as one model that needs no peft.

    The base is read again, in its unquantised type: adding a small adapter to 4-bit weights and
    rounding the sum to 4 bits would lose the adapter.

    Args:
        model: The base.
        adapter: The adapter's folder, which holds the tokenizer too.
        to: What to write.

    Raises:
        ConfigError: The base cannot be loaded, or is another one than the adapter's.
    """
    from peft import PeftModel

    with quiet_transformers():
        base = load_model(model.model_copy(update={"peft": None}))
        try:
            merged = PeftModel.from_pretrained(base, str(adapter)).merge_and_unload()
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"model.name_or_path: the adapter in {adapter} does not fit on "
                f"{model.name_or_path!r} ({reason})"
            ) from error
        merged.save_pretrained(to)
    copy_image_processor(model, to)
    AutoTokenizer.from_pretrained(adapter).save_pretrained(to)


def export_weights(run: Path, checkpoint: Path | None, to: Path) -> Path:
    """Write a run's final weights, or those of a checkpoint, to a folder of their own.

    Args:
        run: A run's folder.
        checkpoint: Its newest complete checkpoint, in Hugging Face's format; None where there is
            none.
        to: What to write; must not exist.

    Raises:
        RunFolderError: There are no weights yet, or `to` exists.
        ConfigError: The base of an adapter cannot be loaded.
    """
    source = run / MODEL
    if not source.is_dir() and checkpoint is not None:
        source = checkpoint
    if not source.is_dir():
        raise RunFolderError(f"{run}: holds no weights yet (no model/, no complete checkpoint)")
    if to.exists():
        raise RunFolderError(f"{to}: exists already; choose another folder to export to")
    with writing(to) as folder:
        if (source / ADAPTER_CONFIG).exists():
            merge_adapter(load_config(run / CONFIG).model, source, folder)
        else:
            shutil.copytree(source, folder, ignore=_TRAINER_STATE)
    return to


@contextmanager
def writing(to: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `to` when the block ends well, and else is removed.

    One that a killed process has left behind is overwritten.
    """
    partial = partial_folder(to)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
        put_in_place(partial, to)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def partial_folder(to: Path) -> Path:
    """Where a folder is filled before it gets its name."""
    return to.with_name(f".{to.name}.partial")


def put_in_place(folder: Path, to: Path) -> None:
    """Put a folder in the place of another, or where there is none."""
    shutil.rmtree(to, ignore_errors=True)
    os.replace(folder, to)
