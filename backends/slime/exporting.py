"""Weights as they leave a run of slime: Hugging Face folders with everything that loads them."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from backends.slime.checkpoints import newest_checkpoint, unconverted
from backends.slime.job_environment import slime_root
from retrain.config import RunConfig, load_config
from retrain.errors import ConfigError, RunFolderError
from retrain.model_files import load_tokenizer
from retrain.report.run_folder import CONFIG

_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")


def export_run(run: Path, to: Path) -> Path:
    """Write a run's newest weights to a folder of their own.

    Args:
        run: A run's folder.
        to: What to write; must not exist.

    Raises:
        RunFolderError: There are no weights yet, they stand there in slime's own format only, or
            `to` exists.
    """
    config = load_config(run / CONFIG)
    source = newest_checkpoint(run)
    if source is None:
        raise RunFolderError(_no_weights(run, to, config))
    if to.exists():
        raise RunFolderError(f"{to}: exists already; choose another folder to export to")
    partial = to.with_name(f"{to.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source.model, partial)
    complete_model(partial, config)
    os.replace(partial, to)
    return to


def complete_model(folder: Path, config: RunConfig) -> Path:
    """Put a tokenizer beside weights that lack one, so that the folder loads alone.

    slime copies the files that stand beside `--hf-checkpoint`; a tokenizer that `model.tokenizer`
    names stands elsewhere.

    Args:
        folder: Hugging Face weights.
        config: Names the model and its tokenizer.

    Raises:
        RunFolderError: There is no config.json.
    """
    if not (folder / "config.json").is_file():
        raise RunFolderError(
            f"{folder}: holds no config.json; slime copies it from {config.model.name_or_path}: "
            "put it there, or name a model folder that has one"
        )
    if config.model.tokenizer or not any((folder / name).is_file() for name in _TOKENIZERS):
        load_tokenizer(config).save_pretrained(str(folder))
    return folder


def _no_weights(run: Path, to: Path, config: RunConfig) -> str:
    weights = unconverted(run)
    if weights is None:
        return f"{run}: holds no weights yet (no complete checkpoint in checkpoints/)"
    command = _conversion(weights, to, config)
    return (
        f"{weights}: holds weights in Megatron's format only, and no Hugging Face folder stands "
        f"beside it (a run without --save-hf, or one that was killed while it saved); slime "
        f"converts them with: {command}"
    )


def _conversion(weights: Path, to: Path, config: RunConfig) -> str:
    try:
        root = str(slime_root(config))
    except ConfigError:
        root = "SLIME"
    words = [
        "python3",
        f"{root}/tools/convert_torch_dist_to_hf.py",
        f"--input-dir={weights.absolute()}",
        f"--output-dir={to.absolute()}",
        f"--origin-hf-dir={config.model.name_or_path}",
    ]
    return f"PYTHONPATH={root}:MEGATRON {shlex.join(words)}"
