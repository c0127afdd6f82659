"""`RolloutSettings`: how groups are collected."""

from __future__ import annotations

from dataclasses import dataclass, field

from bridges.policy import FailurePolicy
from retrain.engine.base import SamplingParams


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """How groups are collected.

    Attributes:
        params: How the engine samples.
        n_samples: G, episodes of one group.
        run_seed: The run's seed.
        split: "train", or the evaluation's name; part of every seed.
        concurrency: Most episodes in play at the same time, suspended ones left out.
        episode_timeout: Seconds that one episode may take, without those for which it is
            suspended; None waits for ever.
        policy: What happens to failed episodes.
        evaluation: Marks the episodes as evaluation.
    """

    params: SamplingParams
    n_samples: int = 8
    run_seed: int = 0
    split: str = "train"
    concurrency: int = 64
    episode_timeout: float | None = None
    policy: FailurePolicy = field(default_factory=FailurePolicy)
    evaluation: bool = False
