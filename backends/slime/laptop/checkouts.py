"""The two checkouts that a laptop run imports from, checked before anything is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from retrain.config import RunConfig
from retrain.errors import ConfigError

SLIME_VARIABLE, MEGATRON_VARIABLE = "RETRAIN_SLIME", "RETRAIN_MEGATRON"
"""Name the checkouts where the configuration does not."""

TESTED_COMMIT = "624b824a898ab0ec1fcb4d373004c7f3852bf515"
"""Of slime."""

_PATCHES: Mapping[str, tuple[str, str]] = {
    "megatron.patch": (
        "megatron/core/distributed/param_and_grad_buffer.py",
        "disable_grad_buffers_cpu_backup",
    ),
    "megatron-sglang-aligned.patch": (
        "megatron/core/transformer/transformer_layer.py",
        "_use_sglang_fused_residual_rmsnorm",
    ),
}
"""Each of slime's patches to a file that it changes, and to a name that it adds there."""


@dataclass(frozen=True, slots=True)
class Checkouts:
    """Where to import from.

    Attributes:
        slime: The folder that holds `train.py` and the package `slime`.
        megatron: The folder that holds the package `megatron`.
    """

    slime: Path
    megatron: Path


def find_checkouts(config: RunConfig, environment: Mapping[str, str] = os.environ) -> Checkouts:
    """The checkouts that a configuration names, or else the environment.

    Args:
        config: The run's configuration, with `slime_laptop`.
        environment: Environment variables.

    Raises:
        ConfigError: One is not named, is something else, or lacks slime's patches; with the key
            and what to do.
    """
    section = config.slime_laptop
    assert section is not None
    slime = _named("slime", section.slime, environment.get(SLIME_VARIABLE))
    megatron = _named("megatron", section.megatron, environment.get(MEGATRON_VARIABLE))
    _require_slime(slime)
    _require_megatron(megatron, slime)
    _warn_of_untested(slime)
    return Checkouts(slime, megatron)


def _named(key: str, configured: str | None, from_environment: str | None) -> Path:
    named = configured or from_environment
    if named:
        return Path(named).expanduser().absolute()
    variable = {"slime": SLIME_VARIABLE, "megatron": MEGATRON_VARIABLE}[key]
    raise ConfigError(
        f"slime_laptop.{key}: is not set, nor is ${variable}; name a checkout "
        "(docs/slime_laptop.md says how to make it)"
    )


def _require_slime(folder: Path) -> None:
    if (folder / "train.py").is_file() and (folder / "slime" / "ray").is_dir():
        return
    packaged = (folder / "__init__.py").is_file() or (folder / "slime" / "__init__.py").is_file()
    if packaged and not (folder / "slime" / "ray").is_dir():
        raise ConfigError(
            f"slime_laptop.slime: {folder} is a package without train.py; the distribution slime "
            "on PyPI is another program (mixed-effects models): git clone "
            "https://github.com/THUDM/slime and name that folder"
        )
    raise ConfigError(
        f"slime_laptop.slime: {folder} is no slime checkout (no train.py); git clone "
        "https://github.com/THUDM/slime and name that folder"
    )


def _warn_of_untested(slime: Path) -> None:
    """Warn of another commit than the tested one, where the folder is a git checkout."""
    if not (slime / ".git").exists() or shutil.which("git") is None:
        return
    asked = ["git", "-C", str(slime), "rev-parse", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if commit and commit != TESTED_COMMIT:
        warnings.warn(
            f"slime_laptop.slime: {slime} is at {commit[:8]}; tested is {TESTED_COMMIT[:8]}, and "
            "the hooks name modules of that one",
            stacklevel=3,
        )


def _require_megatron(folder: Path, slime: Path) -> None:
    if not (folder / "megatron" / "training").is_dir():
        raise ConfigError(
            f"slime_laptop.megatron: {folder} is no Megatron-LM checkout (no megatron/training, "
            "which megatron-core on PyPI lacks too); git clone "
            "https://github.com/NVIDIA/Megatron-LM and name that folder"
        )
    for patch, (changed, added) in _PATCHES.items():
        file = folder / changed
        if file.is_file() and added in file.read_text(encoding="utf-8"):
            continue
        raise ConfigError(
            f"slime_laptop.megatron: {folder} lacks slime's patch {patch}; in it, run git apply "
            f"{slime / 'docker' / 'patch' / 'latest' / patch}"
        )
