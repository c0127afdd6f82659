"""The processes that train together, seen from one of them; alone, everything is as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import distributed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ranks:
    """Data-parallel processes.

    Attributes:
        processes: How many there are.
        rank: Which one this is.
        device: Where numbers are summed.
        talk: The group that waits for the first process as long as it takes (see `connecting`
            beside this file); None takes the default group, whose patience is limited.
    """

    processes: int = 1
    rank: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    talk: Any = None

    @property
    def first(self) -> bool:
        """Whether this process writes what all have in common."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Every n-th item, from this rank's own place: sorted items are shared out evenly."""
        return items[self.rank :: self.processes]

    def sums(self, values: Mapping[str, torch.Tensor]) -> dict[str, float]:
        """The sum over all processes of each value; all of them ask for the same names."""
        names = sorted(values)
        together = torch.stack([values[name].detach().double() for name in names])
        if self.processes > 1:
            together = together.to(self.device)
            distributed.all_reduce(together)
        return dict(zip(names, together.tolist(), strict=True))

    def most(self, number: int) -> int:
        """The largest of all processes' numbers."""
        if self.processes == 1:
            return number
        found = torch.tensor(number, device=self.device)
        distributed.all_reduce(found, op=distributed.ReduceOp.MAX)
        return int(found)

    def gathered(self, items: Sequence[T]) -> list[T]:
        """Everybody's items in rank order, on every process."""
        if self.processes == 1:
            return list(items)
        parts: list[Any] = [None] * self.processes
        distributed.all_gather_object(parts, list(items))
        return [item for part in parts for item in part]

    def told(self, value: T | None = None) -> T:
        """What the first process says, on every process; the others wait for it.

        Args:
            value: What to say; the first process gives it.
        """
        box: list[Any] = [value]
        if self.processes > 1:
            distributed.broadcast_object_list(box, src=0, group=self.talk)
        said: T = box[0]
        return said

    def wait_for_first(self) -> None:
        """Wait for the first process as long as it takes: it writes large files."""
        self.told(None)

    def barrier(self) -> None:
        """Wait for everybody, who come at about the same time."""
        if self.processes > 1:
            distributed.barrier()
