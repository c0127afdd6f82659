"""A CPU for slime's accelerators.

slime knows CUDA and MUSA devices and stops where it finds neither (`slime/ray/train_actor.py`).
`register_accelerator` is its public way of adding another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def around(module: ModuleType) -> Iterator[None]:
    """Register the CPU, after every real device.

    Args:
        module: `slime.utils.accelerator`.
    """
    yield
    from backends.slime.laptop.cpu_accelerator import CPUAccelerator

    module.register_accelerator(
        "cpu", CPUAccelerator, lambda: True, priority=-1, communication_backends=("gloo",)
    )
