"""How the trainer's weights come to the engine that writes the rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol


class EngineInTraining(Protocol):
    """What of an engine a run in training uses, besides `InferenceEngine`."""

    def weights_changed(self, version: str) -> None:
        """Say that the weights are new: `version` stands on the turns from now on."""
        ...


class WeightKeeper(Protocol):
    """Keeps the engine's weights those of the trainer."""

    def attach(self, trainer: Any) -> None:
        """Take the trainer, once it is made."""
        ...

    @property
    def due(self) -> bool:
        """Whether the engine has other weights than the trainer."""
        ...

    def sync(self) -> None:
        """Bring the trainer's weights to the engine, where they have changed since.

        Every process calls it: gathering a parameter that is sharded takes them all.
        """
        ...

    def current(self) -> AbstractContextManager[None]:
        """Generate with the trainer's weights, of the step's version, while the context lasts."""
        ...

    def measured(self, gap: float) -> None:
        """Take mean |train - rollout logprob| of tokens that the present weights wrote."""
        ...

    def drifted(self, gap: float) -> None:
        """Take mean |train - rollout logprob| of tokens of which older weights wrote some."""
        ...


class SharedWeights:
    """The keeper of an engine that generates with the trainer's own model: nothing is sent."""

    def __init__(self, engine: EngineInTraining) -> None:
        """Take the engine."""
        self._engine = engine
        self._trainer: Any = None

    def attach(self, trainer: Any) -> None:
        """See `WeightKeeper`."""
        self._trainer = trainer

    @property
    def due(self) -> bool:
        """See `WeightKeeper`: there is one copy."""
        return False

    def sync(self) -> None:
        """See `WeightKeeper`: there is one copy."""

    @contextmanager
    def current(self) -> Iterator[None]:
        """See `WeightKeeper`."""
        self._engine.weights_changed(str(self._trainer.state.global_step))
        yield

    def measured(self, gap: float) -> None:
        """See `WeightKeeper`: one copy cannot lag behind."""

    def drifted(self, gap: float) -> None:
        """See `WeightKeeper`: one copy cannot lag behind."""
