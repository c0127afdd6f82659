"""`RolloutConfig`: how batches of samples are made, and `RolloutBatch`: one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from retrain.errors import ConfigError
from retrain.rollout.filling import OverSampling, Tally
from retrain.rollout.filters import GroupFilter
from retrain.rollout.partial import BufferFilter, pop_first
from retrain.sample import Sample
from retrain.types import Group, Task

GenerateFn: TypeAlias = Callable[[Sequence[Task]], Awaitable[Sequence[Sample]]]
"""Tasks -> a sample for each, in order (several with one `rollout_id` where history is rewritten).

A group's task stands `n_samples_per_prompt` times."""

RewardFn: TypeAlias = Callable[[Sample], "float | Awaitable[float]"]
"""A sample -> its reward, in place of what `generate_fn` put there."""


@dataclass(frozen=True, slots=True)
class RolloutConfig:
    """How batches of samples are made.

    Attributes:
        batch_size: Groups of a batch.
        generate_fn: Plays the episodes of one group.
        n_samples_per_prompt: G, episodes of a group.
        over_sampling_factor: Groups in play for each one that is still missing.
        reward_fn: Rewards a sample; None keeps the rewards that `generate_fn` put there.
        filter_fn: Which groups to keep; None keeps all. It is given a `Group`, as those in
            `retrain.rollout.filters` are, and gives a bool or a `FilterResult`.
        buffer_filter_fn: Which half-played groups go on, and in which order.
        partial: Whether half-played groups go on in the next batch; False gives them up.
        max_staleness: Weight updates that a group may have seen since it was begun; None is any
            number.
        max_refills: Groups that one batch may drop, as a multiple of `batch_size`.
        fallback: Whether a batch is filled with dropped groups rather than ended, beyond that.
        advantage: grpo, dr_grpo, rloo or gspo.
        ahead: Whether the next batch is collected while the last one is trained on. The weights
            of the engine then change within `weights_changing` only; without it, they are taken to
            change once after each batch.
    """

    batch_size: int
    generate_fn: GenerateFn
    n_samples_per_prompt: int = 1
    over_sampling_factor: float = 1.0
    reward_fn: RewardFn | None = None
    filter_fn: GroupFilter | None = None
    buffer_filter_fn: BufferFilter = pop_first
    partial: bool = True
    max_staleness: int | None = None
    max_refills: float = 8.0
    fallback: bool = False
    advantage: str = "grpo"
    ahead: bool = False

    def __post_init__(self) -> None:
        if self.n_samples_per_prompt < 1:
            raise ConfigError(
                f"n_samples_per_prompt is {self.n_samples_per_prompt}; expected at least 1"
            )
        self.filling()

    def filling(self) -> OverSampling:
        """How a batch is filled.

        Raises:
            ConfigError: A number that cannot be.
        """
        return OverSampling(
            self.batch_size,
            self.over_sampling_factor,
            filter=self.filter_fn,
            buffer_filter=self.buffer_filter_fn,
            max_staleness=self.max_staleness,
            max_refills=self.max_refills,
            fallback=self.fallback,
            partial=self.partial,
        )


@dataclass(frozen=True, slots=True)
class RolloutBatch:
    """A batch, ready for training.

    Attributes:
        samples: All its samples, group by group, each with its advantage.
        groups: The groups that they are of.
        tally: What became of the groups that are not in the batch.
    """

    samples: tuple[Sample, ...]
    groups: tuple[Group, ...]
    tally: Tally = field(default_factory=Tally)

    @property
    def tokens(self) -> list[list[int]]:
        """[samples][T] prompt and response."""
        return [sample.tokens for sample in self.samples]

    @property
    def loss_masks(self) -> list[list[int]]:
        """[samples][R] 1 on the tokens of the response that are trained on."""
        return [sample.loss_mask for sample in self.samples]

    @property
    def rewards(self) -> list[Any]:
        """[samples] raw rewards; None where one is not known."""
        return [sample.reward for sample in self.samples]

    @property
    def advantages(self) -> list[float]:
        """[samples] the advantage of every trained token of the sample."""
        return [sample.advantage for sample in self.samples]

    @property
    def response_lengths(self) -> list[int]:
        """[samples] R."""
        return [sample.response_length for sample in self.samples]
