"""The package torch_memory_saver, which moves GPU memory out of the way and back."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


class _TorchMemorySaver:
    """There is no GPU memory to move."""

    def pause(self, tag: str | None = None) -> None:
        """Nothing to move out."""

    def resume(self, tag: str | None = None) -> None:
        """Nothing to move back."""

    def region(self, *args: Any, **kwargs: Any) -> AbstractContextManager[None]:
        """Memory that could be moved."""
        return nullcontext()

    def disable(self) -> AbstractContextManager[None]:
        """Memory that stays."""
        return nullcontext()

    def get_cpu_backup(self, tensor: Any, zero_copy: bool = False) -> None:
        """No copy: the tensor itself is on the CPU."""
        return


torch_memory_saver = _TorchMemorySaver()
