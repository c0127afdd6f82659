"""What the machine offers: GPUs, CPU threads, memory, a place to write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_PROBE = """
import json, torch
found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
gpus = [[gpu.name, gpu.total_memory] for gpu in found]
print(json.dumps({"cuda": torch.version.cuda, "gpus": gpus}))
"""
_PROBE_SECONDS = 30.0
_DRIVER = Path("/dev/nvidiactl")
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class GPU:
    """One GPU that torch can use.

    Attributes:
        name: Its name.
        memory: Its bytes.
    """

    name: str
    memory: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine offers.

    Attributes:
        python: Python's version.
        threads: CPU threads that this process may use.
        memory: Bytes of memory, within the container's limit; None where nobody can tell.
        cuda: The CUDA that torch is built for; None for a CPU build, or without torch.
        gpus: The GPUs that torch can use.
        torch_fault: Why torch cannot be imported; "" where it can, or is missing.
        gpu_fault: Why torch sees no GPU although there is a driver; "" where that is not so.
        writable: Whether files can be written in the working directory.
    """

    python: str
    threads: int
    memory: int | None
    cuda: str | None
    gpus: tuple[GPU, ...]
    torch_fault: str
    gpu_fault: str
    writable: bool


@dataclass(frozen=True, slots=True)
class _Torch:
    """What torch says about itself: the same fields as `Machine`."""

    cuda: str | None = None
    gpus: tuple[GPU, ...] = ()
    fault: str = ""


def find_machine() -> Machine:
    """Look at the machine; torch is asked in a process of its own, which may crash alone."""
    torch = _probe_torch() if find_spec("torch") else _Torch()
    return Machine(
        python=".".join(map(str, sys.version_info[:3])),
        threads=_threads(),
        memory=_memory(),
        cuda=torch.cuda,
        gpus=torch.gpus,
        torch_fault=torch.fault,
        gpu_fault=_gpu_fault(torch),
        writable=_is_writable(Path.cwd()),
    )


def _probe_torch() -> _Torch:
    command = [sys.executable, "-c", _PROBE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return _Torch(fault=f"importing torch takes more than {_PROBE_SECONDS:.0f} s")
    lines = done.stderr.strip().splitlines()
    if done.returncode != 0:
        reason = lines[-1] if lines else f"the process ended with {done.returncode}"
        return _Torch(fault=f"importing torch fails: {reason}")
    found = json.loads(done.stdout.splitlines()[-1])
    return _Torch(found["cuda"], tuple(GPU(name, memory) for name, memory in found["gpus"]))


def _gpu_fault(torch: _Torch) -> str:
    if torch.gpus or torch.fault or not _DRIVER.exists():
        return ""
    if torch.cuda is None:
        return "there is an NVIDIA driver; torch is built for the CPU: reinstall it for CUDA"
    return (
        f"there is an NVIDIA driver; torch (CUDA {torch.cuda}) sees no GPU: look at nvidia-smi and "
        "CUDA_VISIBLE_DEVICES"
    )


def _threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int | None:
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
    try:
        return min(physical, int(_CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return physical


def _is_writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
