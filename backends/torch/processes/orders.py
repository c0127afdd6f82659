"""What the first of several processes has the others do: each order is one piece of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from backends.torch.rows import TrainingBatch


@dataclass(frozen=True, slots=True)
class ForwardBackward:
    """Add the gradient of a batch."""

    batch: TrainingBatch


@dataclass(frozen=True, slots=True)
class OptimStep:
    """Take an optimizer step."""


@dataclass(frozen=True, slots=True)
class Score:
    """Compute log-probabilities."""

    batch: TrainingBatch
    reference: bool


@dataclass(frozen=True, slots=True)
class Likeliest:
    """Answer the prompts by which servers' weights are told apart."""

    prompts: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Save:
    """Save a checkpoint; its marker is the first process's."""

    step: int


@dataclass(frozen=True, slots=True)
class Load:
    """Load a checkpoint."""

    path: Path


@dataclass(frozen=True, slots=True)
class SaveWeights:
    """Write the weights alone."""

    folder: Path
    merge: bool


@dataclass(frozen=True, slots=True)
class Release:
    """The run has ended well: follow no longer."""


Order: TypeAlias = (
    ForwardBackward | OptimStep | Score | Likeliest | Save | Load | SaveWeights | Release
)
