"""What all processes but the first one do: they train as they are told, and decide nothing."""

from __future__ import annotations

from typing import assert_never

from backends.torch.fsdp import FSDPTrainingBackend
from backends.torch.processes.orders import (
    ForwardBackward,
    Likeliest,
    Load,
    OptimStep,
    Order,
    Release,
    Save,
    SaveWeights,
    Score,
)
from backends.torch.processes.ranks import Ranks
from retrain.errors import BackendFailure


async def follow(backend: FSDPTrainingBackend, ranks: Ranks) -> None:
    """Do what the first process is asked for, until it has ended the run well.

    Where the first process ends otherwise, its connection closes, and this raises. A loss or a norm
    that is not finite is everybody's, as all have summed it: the first process reports it.

    Args:
        backend: This process's part.
        ranks: Who trains together.

    Raises:
        RetrainError: What the work failed with; this process must end, so that the others do.
    """
    order: Order = ranks.told()
    while not isinstance(order, Release):
        try:
            await _obey(backend, order)
        except BackendFailure:
            ranks.told()
            raise
        order = ranks.told()


async def _obey(backend: FSDPTrainingBackend, order: Order) -> None:
    match order:
        case ForwardBackward(batch):
            await backend.forward_backward(batch)
        case OptimStep():
            await backend.optim_step()
        case Score(batch, reference):
            await backend.score(batch, reference=reference)
        case Likeliest(prompts):
            await backend.likeliest(prompts)
        case Save(step):
            await backend.save_checkpoint(step, {})
        case Load(path):
            await backend.load_checkpoint(path)
        case SaveWeights(folder, merge):
            await backend.save_weights(folder, merge=merge)
        case Release():
            pass
        case _:
            assert_never(order)
