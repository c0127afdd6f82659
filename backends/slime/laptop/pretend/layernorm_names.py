"""TransformerEngine's names for the layer norms that stand on their own here.

TransformerEngine fuses a norm with the linear layer that follows it, and slime's conversions to
and from Hugging Face know the fused parameter's name only. Without TransformerEngine the norm is
a module of its own; the numbers are the same.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

_Value = TypeVar("_Value")

_BEFORE_ATTENTION = re.compile(r"(\.layers\.\d+)\.input_layernorm\.(weight|bias)$")
_BEFORE_MLP = re.compile(r"(\.layers\.\d+)\.pre_mlp_layernorm\.(weight|bias)$")


def fused_names(named: Iterable[tuple[str, _Value]]) -> Iterator[tuple[str, _Value]]:
    """Name parameters as a TransformerEngine model does.

    The norm before a mixture of experts keeps its name: TransformerEngine does not fuse it.

    Args:
        named: Megatron's parameters of a model, named as it names them.

    Returns:
        The same parameters in the same order.
    """
    parameters = list(named)
    dense = {name.partition(".mlp.")[0] for name, _ in parameters if ".mlp.linear_fc1." in name}
    for name, value in parameters:
        yield _fused_name(name, dense), value


def _fused_name(name: str, dense: set[str]) -> str:
    if _BEFORE_ATTENTION.search(name):
        return _BEFORE_ATTENTION.sub(r"\1.self_attention.linear_qkv.layer_norm_\2", name)
    if name.partition(".pre_mlp_layernorm.")[0] in dense:
        return _BEFORE_MLP.sub(r"\1.mlp.linear_fc1.layer_norm_\2", name)
    return name


@contextmanager
def around(module: ModuleType) -> Iterator[None]:
    """Give slime the fused names wherever it walks over a model's parameters.

    Args:
        module: `slime.backends.megatron_utils.update_weight.common`.
    """
    yield
    walk: Callable[..., Iterable[tuple[str, Any]]] = module._named_params_and_buffers_global

    @functools.wraps(walk)
    def renamed(*args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        return fused_names(walk(*args, **kwargs))

    module._named_params_and_buffers_global = renamed  # type: ignore[attr-defined]
