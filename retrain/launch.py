"""Several processes: one global order of groups, sliced by rank, and gathered again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from retrain.errors import BackendFailure, RetrainError

T = TypeVar("T")

_ENDED = "has ended or was killed"
_LATE = "has not answered in time (trl_ddp_timeout, torch_timeout)"
_LOST = {
    "closed by peer": _ENDED,
    "reset by peer": _ENDED,
    "broken pipe": _ENDED,
    "remote process": _ENDED,
    "timed out": _LATE,
    "timeout": _LATE,
}
"""What gloo and NCCL say, in lower case, when a process at the other end is gone or hangs."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How this process was launched, as accelerate and torchrun say in the environment.

    Attributes:
        processes: How many there are.
        rank: Which one this is.
        sharding: "fsdp" or "zero3" where each process holds a part of the weights; "zero2" where
            it holds them all and a part of the optimizer; "" for plain data parallelism.
        local_rank: Which one of this machine's processes this is.
    """

    processes: int = 1
    rank: int = 0
    sharding: str = ""
    local_rank: int = 0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Launch:
        """Read the launch from environment variables."""
        return cls(
            processes=int(environment.get("WORLD_SIZE", "1")),
            rank=int(environment.get("RANK", "0")),
            sharding=_sharding(environment),
            local_rank=int(environment.get("LOCAL_RANK", "0")),
        )

    @property
    def first(self) -> bool:
        """Whether this process writes the run folder."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part of a global order: the rank's consecutive slice.

        Args:
            items: The global order; its length is a multiple of the number of processes, or the
                first ranks get one more.
        """
        count, rest = divmod(len(items), self.processes)
        start = self.rank * count + min(self.rank, rest)
        return items[start : start + count + (self.rank < rest)]

    def gather(self, items: Sequence[T]) -> list[T]:
        """Everybody's items in rank order, on every process."""
        if self.processes == 1:
            return list(items)
        parts: list[Any] = [None] * self.processes
        with self._together():
            _distributed().all_gather_object(parts, list(items))
        return [item for part in parts for item in part]

    def agree(self, failure: RetrainError | None) -> None:
        """Raise on every process what failed on one, so that nobody waits for it.

        Raises:
            RetrainError: This process's own failure, or one that names the rank that failed.
        """
        failures = self.gather([None if failure is None else str(failure)])
        if failure is not None:
            raise failure
        for rank, reason in enumerate(failures):
            if reason is not None:
                raise BackendFailure(f"rank {rank} failed: {reason}")

    def barrier(self) -> None:
        """Wait for everybody."""
        if self.processes > 1:
            with self._together():
                _distributed().barrier()

    def lost(self, error: BaseException) -> str | None:
        """Say that another process is gone, where that is why a collective call failed.

        Args:
            error: What the call raised; a message of gloo or NCCL says that a connection was lost,
                or that time ran out.
        """
        text = str(error).lower()
        if self.processes == 1 or not ("gloo" in text or "nccl" in text):
            return None
        reason = next((reason for sign, reason in _LOST.items() if sign in text), None)
        if reason is None:
            return None
        return (
            f"rank {self.rank} of {self.processes} cannot go on: another rank {reason}; its output "
            "says why, and --resume goes on from the last checkpoint"
        )

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if (reason := self.lost(error)) is None:
                raise
            raise BackendFailure(reason) from error


def _sharding(environment: Mapping[str, str]) -> str:
    if environment.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true"):
        return "fsdp"
    if environment.get("ACCELERATE_USE_DEEPSPEED", "").lower() in ("1", "true"):
        stage = environment.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2")
        return f"zero{stage}"
    return ""


def _distributed() -> Any:
    import torch.distributed

    return torch.distributed
