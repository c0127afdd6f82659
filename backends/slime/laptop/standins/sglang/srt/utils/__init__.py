"""Functions of SGLang that slime imports (sglang/srt/utils)."""

from __future__ import annotations

from typing import Any

import psutil


def kill_process_tree(parent_pid: int, include_parent: bool = True, **_: Any) -> None:
    """End a process and those that it has started."""
    parent = psutil.Process(parent_pid)
    family = [*parent.children(recursive=True), *([parent] if include_parent else [])]
    for process in family:
        process.kill()


class MultiprocessingSerializer:
    """Passes tensors on one machine: for weight updates that do not go by way of the disk."""
