"""Triton for modules that define kernels on import and, on a CPU, never call them.

It is seen by those modules only, and only where Triton is not installed: whatever looks for Triton
in order to use it, PyTorch's compiler first, is not to find it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Language(ModuleType):
    """`triton.language`: any of its types and functions, as far as annotations need them."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


@contextmanager
def around(module: ModuleType) -> Iterator[None]:
    """Let the module import Triton.

    Args:
        module: One that defines Triton kernels.
    """
    if find_spec("triton") is not None:
        yield
        return
    pretended = _triton()
    sys.modules.update(pretended)
    try:
        yield
    finally:
        for name in pretended:
            del sys.modules[name]


def _triton() -> dict[str, ModuleType]:
    triton, language = ModuleType("triton"), _Language("triton.language")
    vars(triton).update(language=language, jit=_unchanged, autotune=_unchanged, Config=dict)
    return {"triton": triton, "triton.language": language}


def _unchanged(*kernel: Any, **options: Any) -> Any:
    """A decorator, with or without options, that leaves the kernel as it is."""
    return kernel[0] if kernel and callable(kernel[0]) else _unchanged
