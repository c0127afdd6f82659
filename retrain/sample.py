"""`Sample`: what a trainer reads, one per token stream; field names and meanings are slime's.

Length symbols in this file: P prompt tokens, R response tokens, T = P + R.
Source of the names: `slime/utils/types.py` of slime 0.3.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import compress
from typing import Any


class Status(StrEnum):
    """How an episode stands, in slime's words."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SpecInfo:
    """Speculative-decoding counters of one sample, in tokens and requests."""

    spec_accept_token_num: int = 0
    spec_draft_token_num: int = 0
    spec_verify_ct: int = 0
    completion_token_num: int = 0


@dataclass(frozen=True, slots=True)
class PrefixCacheInfo:
    """Prefix-cache counters of one sample, in tokens."""

    cached_tokens: int = 0
    total_prompt_tokens: int = 0


@dataclass(slots=True)
class Sample:
    """One token stream with its mask, logprobs, reward and advantage.

    Mutable, as slime's is: slime's own code fills and edits the fields.

    Attributes:
        group_index: Which group (one visit to one task) it belongs to.
        index: Position among all samples of the run.
        rollout_id: Which episode; siblings of one episode share it.
        prompt: Text or messages of the first observation.
        tokens: [T] token ids, prompt first.
        multimodal_inputs: Images of the prompt, or None.
        response: Text of the response tokens.
        response_length: R.
        label: The task's expected answer.
        reward: Raw reward; None where it is unknown.
        loss_mask: [R] 1 on tokens that the policy sampled and trains on, else 0.
        rollout_log_probs: [R] the engine's logprobs in nats; 0.0 where nobody sampled.
        weight_versions: The weight version of each turn; several of a turn that several wrote.
        status: How the episode ended.
        remove_sample: True zeroes the loss and keeps the slot.
        metadata: The task's metadata; key "retrain" holds what `to_trajectory` needs.
        train_metadata: Passed to the trainer as it is.
        session_id: The engine session, for routing.
        non_generation_time: Seconds spent in the environment.
        spec_info: Speculative-decoding counters.
        prefix_cache_info: Prefix-cache counters.
        advantage: The advantage of every trained token of the stream.
    """

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str | list[dict[str, Any]] = ""
    tokens: list[int] = field(default_factory=list)
    multimodal_inputs: dict[str, Any] | None = None
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: float | dict[str, float] | None = None
    loss_mask: list[int] = field(default_factory=list)
    rollout_log_probs: list[float] = field(default_factory=list)
    weight_versions: list[str] = field(default_factory=list)
    status: Status = Status.PENDING
    remove_sample: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    train_metadata: dict[str, Any] | None = None
    session_id: str | None = None
    non_generation_time: float = 0.0
    spec_info: SpecInfo = field(default_factory=SpecInfo)
    prefix_cache_info: PrefixCacheInfo = field(default_factory=PrefixCacheInfo)
    advantage: float = 0.0

    @property
    def prompt_ids(self) -> list[int]:
        """[P] the prompt's token ids."""
        return self.tokens[: len(self.tokens) - self.response_length]

    @property
    def response_ids(self) -> list[int]:
        """[R] the response's token ids."""
        return self.tokens[len(self.tokens) - self.response_length :]

    def validate(self) -> None:
        """Check the invariants that every trainer relies on.

        Raises:
            ValueError: Naming the sample and every invariant that does not hold.
        """
        broken = [message for holds, message in _INVARIANTS if not holds(self)]
        if broken:
            name = f"sample {self.index} (group {self.group_index}, rollout {self.rollout_id})"
            raise ValueError(f"{name}: " + "; ".join(broken))


def _mask_needs_logprob(sample: Sample) -> bool:
    trained = list(compress(sample.rollout_log_probs, sample.loss_mask))
    return math.isfinite(sum(trained)) and max(trained, default=0.0) <= 1e-6


def _masked_is_inert(sample: Sample) -> bool:
    return not sample.remove_sample or (not any(sample.loss_mask) and sample.advantage == 0.0)


_INVARIANTS: tuple[tuple[Callable[[Sample], bool], str], ...] = (
    (
        lambda s: 1 <= s.response_length < len(s.tokens),
        "needs at least one prompt token and one response token",
    ),
    (
        lambda s: len(s.loss_mask) == s.response_length,
        "loss_mask must have response_length entries",
    ),
    (
        lambda s: len(s.rollout_log_probs) == s.response_length,
        "rollout_log_probs must have response_length entries",
    ),
    (lambda s: set(s.loss_mask) <= {0, 1}, "loss_mask must hold 0 and 1 only"),
    (_mask_needs_logprob, "a trained token needs a finite logprob of at most 0"),
    (_masked_is_inert, "a removed sample needs mask 0 everywhere and advantage 0"),
    (lambda s: math.isfinite(s.advantage), "the advantage must be finite"),
    (lambda s: s.status is not Status.PENDING, "an unfinished sample cannot be trained on"),
)
