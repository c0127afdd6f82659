"""What of slime, Megatron-LM, SGLang and Ray is on this machine, found without importing it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backends.base import Problem, Severity
from backends.slime.flags_source import (
    ARGUMENTS,
    TESTED,
    declared_flags,
    differences,
)
from retrain.config import RunConfig
from retrain.packages import package_folders

CONTAINER = "docker pull slimerl/slime:latest holds all four"
_INSTALL_SLIME = (
    "git clone https://github.com/THUDM/slime && git -C slime checkout 624b824a && "
    "pip install --no-deps -e ./slime"
)
_INSTALL_MEGATRON = (
    "git clone https://github.com/NVIDIA/Megatron-LM && git -C Megatron-LM checkout 1dcf0da && "
    "git -C Megatron-LM apply --3way $PWD/slime/docker/patch/latest/megatron*.patch && "
    "export PYTHONPATH=$PWD/Megatron-LM"
)
_INSTALL_SGLANG = "pip install sglang==0.5.15.post1 sglang-router==0.3.2"
_INSTALL_RAY = "pip install 'retrain[slime]'"


@dataclass(frozen=True, slots=True)
class Installation:
    """What was found.

    Attributes:
        slime: "" where slime is there, else what is wrong.
        megatron: The same of Megatron-LM.
        sglang: The same of SGLang.
        ray: The same of Ray.
        versions: Where slime is not the tested one.
    """

    slime: str = ""
    megatron: str = ""
    sglang: str = ""
    ray: str = ""
    versions: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, path: Sequence[str] | None = None) -> Installation:
        """Look along an import path; None looks along this process's."""
        root = _slime_root(path)
        source = (root / ARGUMENTS).read_text(encoding="utf-8") if root else ""
        return cls(
            slime=_slime_fault(path),
            megatron=_megatron_fault(path),
            sglang=_missing("sglang", _INSTALL_SGLANG, path),
            ray=_missing("ray", _INSTALL_RAY, path),
            versions=tuple(differences(root, declared_flags(source))) if root else (),
        )

    def problems(self) -> list[Problem]:
        """All of it, in the order in which it is mended."""
        found = [Problem("", text) for text in self._faults() if text]
        return [*found, *self.versions]

    def blocking(self, config: RunConfig, environment: Mapping[str, str]) -> list[Problem]:
        """What stops a run here: a cluster brings its own, and the laptop's rig is told where.

        Args:
            config: The run.
            environment: Environment variables.
        """
        if config.slime_laptop is not None:
            return []
        elsewhere = config.cluster.address or environment.get("RAY_API_SERVER_ADDRESS")
        faults = [
            "" if elsewhere or config.cluster.slime else self.slime,
            "" if elsewhere or config.cluster.megatron else self.megatron,
            "" if elsewhere else self.sglang,
            self.ray,
        ]
        return [Problem("", text) for text in faults if text]

    def _faults(self) -> tuple[str, ...]:
        return self.slime, self.megatron, self.sglang, self.ray


def check_installation(environment: Mapping[str, str] = os.environ) -> list[Problem]:
    """What stands in the way on this machine.

    Args:
        environment: Environment variables; `RAY_API_SERVER_ADDRESS` names a cluster whose nodes
            hold slime, Megatron-LM and SGLang, so that their absence here is a warning.
    """
    found = Installation.of().problems()
    if not environment.get("RAY_API_SERVER_ADDRESS"):
        return found
    return [Problem(p.key, p.message, Severity.WARNING) for p in found]


def _slime_root(path: Sequence[str] | None) -> Path | None:
    roots = [folder.parent for folder in package_folders("slime", path)]
    return next((root for root in roots if (root / ARGUMENTS).is_file()), None)


def _slime_fault(path: Sequence[str] | None) -> str:
    if _slime_root(path) is not None:
        return ""
    folders = package_folders("slime", path)
    if not folders:
        return f"slime is not installed; {_INSTALL_SLIME} ({CONTAINER})"
    return (
        f"the package slime in {folders[0]} is not slime {TESTED}, the framework: PyPI's slime is "
        f"another package, of mixed-effects models; pip uninstall -y slime && {_INSTALL_SLIME}"
    )


def _megatron_fault(path: Sequence[str] | None) -> str:
    folders = package_folders("megatron", path)
    if any((folder / "training" / "arguments.py").is_file() for folder in folders):
        return ""
    if not folders:
        return f"Megatron-LM is not importable; {_INSTALL_MEGATRON} ({CONTAINER})"
    return (
        f"the package megatron in {folders[0]} has no megatron.training, as PyPI's megatron-core "
        f"has none; {_INSTALL_MEGATRON}"
    )


def _missing(name: str, install: str, path: Sequence[str] | None) -> str:
    if package_folders(name, path):
        return ""
    return f"{name} is not installed; {install} ({CONTAINER})"
