"""The processes that train together, seen from one of them; alone, everything is as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

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
    """

    processes: int = 1
    rank: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

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

    def barrier(self) -> None:
        """Wait for everybody."""
        if self.processes > 1:
            distributed.barrier()
