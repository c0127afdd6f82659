"""Tensors that are asked for on "cuda", made on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

_FACTORIES = (
    *("arange", "as_tensor", "empty", "empty_like", "eye", "full", "full_like", "linspace"),
    *("ones", "ones_like", "rand", "randint", "randn", "tensor", "zeros", "zeros_like"),
)
"""Functions of torch that make tensors on a device."""


def apply(torch: ModuleType) -> None:
    """Have "cuda" mean the CPU wherever a tensor or a module is put on a device.

    Args:
        torch: The module.
    """
    for name in _FACTORIES:
        setattr(torch, name, _made_on_cpu(getattr(torch, name)))
    for movable in (torch.Tensor, torch.nn.Module):
        movable.cuda = _stay
        movable.to = _moved_to_cpu(movable.to)
    torch.Tensor.pin_memory = _stay
    torch.Tensor.type = _type_on_cuda(torch.Tensor.type)


def _is_cuda(device: Any) -> bool:
    return str(device).startswith("cuda")


def _made_on_cpu(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs and _is_cuda(kwargs["device"]):
            kwargs["device"] = "cpu"
        kwargs.pop("pin_memory", None)
        return make(*args, **kwargs)

    return made


def _moved_to_cpu(move: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(move)
    def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and _is_cuda(args[0]):
            args = ("cpu", *args[1:])
        if "device" in kwargs and _is_cuda(kwargs["device"]):
            kwargs["device"] = "cpu"
        return move(self, *args, **kwargs)

    return moved


def _stay(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self


def _type_on_cuda(type_of: Callable[..., Any]) -> Callable[..., Any]:
    """`tensor.type()` names the tensor as a CUDA one: Megatron's optimizers know only those."""

    @functools.wraps(type_of)
    def type_on_cuda(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            return type_of(self, *args, **kwargs)
        return type_of(self).replace("torch.", "torch.cuda.", 1)

    return type_on_cuda
