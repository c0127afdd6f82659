"""Resuming with PyTorch's Adam.

Megatron's distributed optimizer, as slime patches it, is resumed with Apex's or TransformerEngine's
Adam, which counts steps for a group of parameters. PyTorch's Adam counts them for each parameter,
in its state: that state must exist before a checkpoint is read into it, and its count, which
comes from the groups, is not among the tensors that are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def around(module: ModuleType) -> Iterator[None]:
    """Have the distributed optimizer load what it saves.

    Args:
        module: `megatron.core.optimizer.distrib_optimizer`.
    """
    yield
    optimizer = module.DistributedOptimizer
    optimizer.state_dict = _of_existing(optimizer.state_dict)
    name = "_set_main_param_and_optimizer_states"
    setattr(optimizer, name, _with_count(getattr(optimizer, name)))


def _of_existing(state_dict: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """`state_dict` of a state that exists: Megatron's own function makes one to load into."""

    @functools.wraps(state_dict)
    def of_existing(self: Any) -> dict[str, Any]:
        if not self.optimizer.state:
            self._init_optimizer_states_with_dummy_values()
        return state_dict(self)

    return of_existing


def _with_count(load: Callable[[Any, Any, dict[str, Any]], None]) -> Callable[..., None]:
    """The loading of one parameter's state, with the count that the groups have given it."""

    @functools.wraps(load)
    def with_count(self: Any, parameter: Any, tensors: dict[str, Any]) -> None:
        group, order = self.model_param_group_index_map[parameter]
        main = self.optimizer.param_groups[group]["params"][order]
        count = {"step": self.optimizer.state[main]["step"]}
        load(self, parameter, {**count, **tensors})

    return with_count
