"""The CPU as one of slime's accelerators; importable where slime is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psutil
import torch
from slime.utils.accelerator.base import Accelerator


class CPUAccelerator(Accelerator):
    """One device, "cpu"; memory is the process's and the machine's."""

    name = "cpu"
    device_type = "cpu"
    communication_backend_name = "gloo"

    def is_available(self) -> bool:
        """Always."""
        return True

    def device(self, index: int | str | torch.device | None = None) -> torch.device:
        """The CPU, whichever device is asked for."""
        return torch.device("cpu")

    def device_name(self, index: int | str | torch.device | None = None) -> str:
        """The name that PyTorch knows the device by."""
        return "cpu"

    def set_device(self, index: int | str | torch.device) -> None:
        """Nothing to choose."""

    def current_device(self) -> str:
        """The name again: PyTorch would take a number for a GPU's."""
        return "cpu"

    def device_count(self) -> int:
        """One."""
        return 1

    def synchronize(self, device: int | str | torch.device | None = None) -> None:
        """Nothing runs behind the caller's back."""

    def current_stream(self, device: int | str | torch.device | None = None) -> None:
        """There are none."""
        return

    def stream(self, stream: Any) -> AbstractContextManager[None]:
        """No stream: the work is done where it is asked for."""
        return nullcontext()

    def empty_cache(self) -> None:
        """No cache to empty."""

    def mem_get_info(self, device: int | str | torch.device | None = None) -> tuple[int, int]:
        """Free and total memory of the machine, in bytes."""
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def memory_allocated(self, device: int | str | torch.device | None = None) -> int:
        """Resident memory of this process, in bytes."""
        return int(psutil.Process().memory_info().rss)

    def memory_reserved(self, device: int | str | torch.device | None = None) -> int:
        """As allocated."""
        return self.memory_allocated(device)

    def autocast(self, *args: Any, **kwargs: Any) -> torch.autocast:
        """PyTorch's own, for the CPU."""
        return torch.autocast("cpu", *args, **kwargs)

    def distributed_device_id(self, index: int | str | torch.device | None = None) -> None:
        """None: gloo is bound to no device."""
        return
