"""NumPy 1 for the one assertion that asks for it.

`slime/backends/megatron_utils/initialize.py` asserts NumPy 1.x on account of Megatron-LM issue
1563, which concerns checkpoints that TransformerEngine writes. Nothing else there depends on the
version, and the environment's other packages want NumPy 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _NumpyOne(ModuleType):
    """NumPy, under the name of its last version before 2."""

    __version__ = "1.26.4"

    def __init__(self, numpy: ModuleType) -> None:
        super().__init__(numpy.__name__)
        self._numpy = numpy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpy, name)


@contextmanager
def around(module: ModuleType) -> Iterator[None]:
    """Show NumPy 1 to this module only.

    Args:
        module: `slime.backends.megatron_utils.initialize`.
    """
    yield
    module.np = _NumpyOne(module.np)  # type: ignore[attr-defined]
