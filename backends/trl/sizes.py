"""The arithmetic of batches: our words into TRL's."""

from __future__ import annotations

from dataclasses import dataclass

from retrain.errors import ConfigError

MAX_MICRO_BATCH = 8
"""Rows of one forward and backward pass, unless `trl_per_device_train_batch_size` says else."""


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """How one iteration is cut up.

    Attributes:
        rows: Rollouts of one iteration: rollout_batch_size x n_samples_per_prompt.
        global_batch_size: Rollouts of one optimizer step.
        micro_batch: Rows of one forward and backward pass.
        inner_epochs: How often each rollout is trained on (TRL's mu).
        processes: How many processes share the rollouts.
    """

    rows: int
    global_batch_size: int
    micro_batch: int
    inner_epochs: int = 1
    processes: int = 1

    @property
    def accumulation(self) -> int:
        """TRL's gradient_accumulation_steps."""
        return self.global_batch_size // (self.micro_batch * self.processes)

    @property
    def steps_per_generation(self) -> int:
        """TRL's steps_per_generation, counted in micro-batches of one process."""
        return self.rows // (self.micro_batch * self.processes)

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps of one iteration."""
        return self.rows // self.global_batch_size * self.inner_epochs


def micro_batch_size(share: int, wanted: int | None) -> int:
    """The micro-batch: what was asked for, else the largest divisor that is at most 8.

    Args:
        share: Rollouts of one optimizer step that one process trains on.
        wanted: What was asked for.

    Raises:
        ConfigError: What was asked for does not divide the share.
    """
    if wanted is None:
        sizes = range(1, min(MAX_MICRO_BATCH, share) + 1)
        return max(size for size in sizes if share % size == 0)
    if wanted < 1 or share % wanted:
        divisors = [n for n in range(1, share + 1) if share % n == 0]
        raise ConfigError(
            f"algorithm.hyperparameters.trl_per_device_train_batch_size: {wanted} does not divide "
            f"the {share} rollouts of one process's optimizer step ({share} = {wanted} x "
            f"{share // max(wanted, 1)} + {share % max(wanted, 1)}; see global_batch_size); use "
            f"one of {', '.join(map(str, divisors))}"
        )
    return wanted
