"""`SFTTrainingConfig` and `RLTrainingConfig`: what the loops are told."""

from __future__ import annotations

from dataclasses import dataclass

from backends.torch.aggregation import Aggregation
from retrain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SFTTrainingConfig:
    """How to imitate.

    Attributes:
        num_steps: Optimizer steps of the run.
        batch_size: Demonstrations of one step.
        log_every: Steps between rows of metrics.
        checkpoint_every: Steps between checkpoints; None saves none on the way.
        aggregation: How token losses make a step's loss.
        seed: Shuffles the demonstrations, where no order is given.
    """

    num_steps: int
    batch_size: int = 8
    log_every: int = 1
    checkpoint_every: int | None = None
    aggregation: Aggregation = "token"
    seed: int = 0

    def __post_init__(self) -> None:
        _require_positive(self, "num_steps", "batch_size", "log_every", "checkpoint_every")


@dataclass(frozen=True, slots=True)
class RLTrainingConfig:
    """How to learn from rollouts.

    Attributes:
        num_steps: Iterations of the run: a batch of rollouts, and the optimizer steps on it.
        rollouts_per_step: Rollouts of one optimizer step; None takes a whole batch.
        sync_every: Iterations between updates of the engines' weights.
        log_every: Iterations between rows of metrics.
        checkpoint_every: Iterations between checkpoints; None saves none on the way.
        aggregation: How token losses make a step's loss.
        constant: The divisor of aggregation "constant", in tokens.
        recompute_old: Take the ratio against the trainer's own log-probabilities before its first
            update on the batch (`PolicyObjective.truncated_importance` wants it).
        reference: Ask the reference model for its log-probabilities, for a KL term.
    """

    num_steps: int
    rollouts_per_step: int | None = None
    sync_every: int = 1
    log_every: int = 1
    checkpoint_every: int | None = None
    aggregation: Aggregation = "token"
    constant: int = 1
    recompute_old: bool = False
    reference: bool = False

    def __post_init__(self) -> None:
        _require_positive(self, "num_steps", "sync_every", "log_every", "constant")
        _require_positive(self, "rollouts_per_step", "checkpoint_every")


def _require_positive(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ConfigError(f"{type(config).__name__}.{name} is {value}; expected at least 1")
