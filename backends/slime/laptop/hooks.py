"""Changes to other people's modules, made while each is imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_PRETEND = "backends.slime.laptop.pretend"

_NEED_TRITON = (
    "megatron.core.inference.contexts.attention_context.triton.tensor_ops",
    "megatron.core.inference.contexts.fused_kv_append_kernel",
    "megatron.core.transformer.custom_layers.batch_invariant_kernels",
    "slime.backends.megatron_utils.kernels.fp8_kernel",
)
"""Modules that define kernels without asking whether Triton is there."""

HOOKS: Mapping[str, str] = {
    "torch": f"{_PRETEND}.cuda",
    "megatron.core.optimizer.distrib_optimizer": f"{_PRETEND}.optimizer_state",
    "slime.utils.accelerator": f"{_PRETEND}.accelerator",
    "slime.backends.megatron_utils.initialize": f"{_PRETEND}.numpy_version",
    "slime.backends.megatron_utils.update_weight.common": f"{_PRETEND}.layernorm_names",
    **dict.fromkeys(_NEED_TRITON, f"{_PRETEND}.triton"),
}
"""A module to the module of ours whose context `around(module)` it is executed in."""


class HookFinder(MetaPathFinder):
    """Finds modules as the finders after it do, and has a hook around their execution."""

    def __init__(self, hooks: Mapping[str, str]) -> None:
        """Make a finder.

        Args:
            hooks: As `HOOKS`.
        """
        self._hooks = hooks
        self._finding: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The module's own spec, with the hook around its execution; None for all others."""
        if fullname not in self._hooks or fullname in self._finding:
            return None
        self._finding.add(fullname)
        try:
            spec = find_spec(fullname)
        finally:
            self._finding.discard(fullname)
        if spec is not None and spec.loader is not None:
            _surround(spec, self._hooks[fullname])
        return spec


def install(hooks: Mapping[str, str] = HOOKS) -> None:
    """Put the hooks before every other way of finding a module; a second call does nothing."""
    if not any(isinstance(finder, HookFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, HookFinder(hooks))


def _surround(spec: ModuleSpec, hook: str) -> None:
    loader = spec.loader
    assert loader is not None
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        with importlib.import_module(hook).around(module):
            execute(module)

    loader.exec_module = exec_module  # type: ignore[method-assign]
