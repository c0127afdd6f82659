"""What this process runs with: versions of packages, and the machine; nothing is imported."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "datasets",
    "peft",
    "tokenizers",
    "vllm",
    "sglang",
    "slime",
    "megatron-core",
    "ray",
    "numpy",
    "pydantic",
)
"""The distributions whose versions decide what a run does."""

_GPUS = Path("/proc/driver/nvidia/gpus")
_CPU = Path("/proc/cpuinfo")


def installed() -> dict[str, str]:
    """Versions of those of `PACKAGES` that are installed."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str]:
    """System, processor, threads that this process may use, and NVIDIA GPUs."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": next(_values(_CPU, "model name"), ""),
        "threads": str(threads),
    }
    gpus = [name for file in sorted(_GPUS.glob("*/information")) for name in _values(file, "Model")]
    models = [f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus)]
    return {name: text for name, text in {**found, "gpus": ", ".join(models)}.items() if text}


def _values(path: Path, key: str) -> Iterator[str]:
    """The values of a key in one of Linux's files of `key : value` lines."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and name.strip() == key:
            yield value.strip()
