"""A CUDA device that is the CPU.

Megatron-LM asks `torch.cuda` for devices, streams, memory and random states without asking whether
there is one. `torch.cuda.is_available()` is false, also where there is one: whoever does ask is not
to use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

from backends.slime.laptop.pretend import devices


class Stream:
    """A stream, or an event, on which everything has already run."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what CUDA's streams and events take."""

    def _done(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to wait for."""

    synchronize = wait = record = wait_stream = wait_event = _done

    def record_event(self, event: Any = None) -> Any:
        """The event, which has happened."""
        return event or Stream()

    def query(self) -> bool:
        """Whether everything has run."""
        return True

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds between two events: not measured."""
        return 0.0


class _Generators:
    """The generator of every device: the CPU's."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getitem__(self, device: Any) -> Any:
        return self._generator


@contextmanager
def around(module: ModuleType) -> Iterator[None]:
    """Put the CPU behind `torch.cuda`, and behind the device "cuda".

    Args:
        module: `torch`.
    """
    yield
    for name, value in _pretended(module).items():
        setattr(module.cuda, name, value)
    for name in ("get_rng_state", "set_rng_state"):  # Megatron takes them from here
        setattr(module.cuda.random, name, getattr(module.cuda, name))
    devices.apply(module)


_NOTHING_TO_DO = (
    *("set_device", "synchronize", "empty_cache", "ipc_collect", "init", "_lazy_init"),
    "reset_peak_memory_stats",
)
_NOT_MEASURED = (
    *("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"),
    "current_blas_handle",
)


def _pretended(torch: ModuleType) -> Mapping[str, Any]:
    """Attributes of `torch.cuda`; a function for each, since TorchDynamo tells them apart."""
    return {
        **{name: _returning(None) for name in _NOTHING_TO_DO},
        **{name: _returning(0) for name in _NOT_MEASURED},
        "is_available": _returning(False),
        "current_device": _returning(torch.device("cpu")),
        "device_count": _returning(1),
        "current_stream": _returning(Stream()),
        "default_stream": _returning(Stream()),
        "Stream": Stream,
        "Event": Stream,
        "stream": lambda stream: nullcontext(),
        "device": lambda device: nullcontext(),
        "manual_seed": lambda seed: torch.default_generator.manual_seed(seed),
        "manual_seed_all": lambda seed: torch.default_generator.manual_seed(seed),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "default_generators": _Generators(torch.default_generator),
        "_lazy_call": lambda call, **_: call(),
        "get_device_capability": _returning((8, 0)),
        "get_device_properties": _returning(SimpleNamespace(name="cpu", major=8, minor=0)),
        "mem_get_info": _returning((1 << 33, 1 << 33)),
        "nvtx": SimpleNamespace(range_push=_returning(0), range_pop=_returning(0)),
    }


def _returning(value: Any) -> Callable[..., Any]:
    def pretended(*args: Any, **kwargs: Any) -> Any:
        return value

    return pretended
