"""What stands in for slime's types where slime is not importable: the same fields and meanings.

Only what the plugin needs is here. Routed experts and top-p replay are decoded by slime alone.
Source of names and meanings: slime 0.3.1, `slime/utils/types.py`, `slime/rollout/base_types.py`
and `slime/rollout/filter_hub/base_types.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class _Status(Enum):
    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


_BY_FINISH = {
    "length": _Status.TRUNCATED,
    "abort": _Status.ABORTED,
    "stop": _Status.COMPLETED,
}


@dataclass
class _SpecInfo:
    spec_accept_token_num: int = 0
    spec_draft_token_num: int = 0
    spec_verify_ct: int = 0
    completion_token_num: int = 0

    def add(self, meta_info: Mapping[str, Any]) -> None:
        """Count one request."""
        self.spec_accept_token_num += meta_info.get("spec_accept_token_num", 0)
        self.spec_draft_token_num += meta_info.get("spec_draft_token_num", 0)
        self.spec_verify_ct += meta_info.get("spec_verify_ct", 0)
        self.completion_token_num += meta_info.get("completion_tokens", 0)


@dataclass
class _PrefixCacheInfo:
    cached_tokens: int = 0
    total_prompt_tokens: int = 0

    def add(self, meta_info: Mapping[str, Any]) -> None:
        """Count one request."""
        self.cached_tokens += meta_info.get("cached_tokens", 0)
        self.total_prompt_tokens += meta_info.get("prompt_tokens", 0)


@dataclass
class Sample:
    """slime's sample: the fields that the plugin reads or writes."""

    Status = _Status
    SpecInfo = _SpecInfo
    PrefixCacheInfo = _PrefixCacheInfo

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str | list[dict[str, Any]] = ""
    tokens: list[int] = field(default_factory=list)
    multimodal_inputs: dict[str, Any] | None = None
    multimodal_train_inputs: dict[str, Any] | None = None
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: float | dict[str, Any] | None = None
    loss_mask: list[int] | None = None
    weight_versions: list[str] = field(default_factory=list)
    rollout_log_probs: list[float] | None = None
    rollout_top_p_token_ids: Any = None
    rollout_top_p_token_offsets: Any = None
    rollout_routed_experts: Any = None
    remove_sample: bool = False
    teacher_log_probs: list[float] | None = None
    status: _Status = _Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)
    generate_function_path: str | None = None
    custom_rm_path: str | None = None
    train_metadata: dict[str, Any] | None = None
    session_id: str | None = None
    non_generation_time: float = 0.0
    spec_info: _SpecInfo = field(default_factory=_SpecInfo)
    prefix_cache_info: _PrefixCacheInfo = field(default_factory=_PrefixCacheInfo)

    def get_reward_value(self, args: Any) -> Any:
        """The reward, or the part of it that `args.reward_key` names."""
        return self.reward if not args.reward_key else _mapping(self.reward)[args.reward_key]

    def append_response_tokens(
        self,
        args: Any = None,
        *,
        tokens: Sequence[int],
        log_probs: Sequence[float] | None = None,
        trainable: bool = True,
        meta_info: Mapping[str, Any] | None = None,
    ) -> None:
        """Append tokens of the response with their mask, logprobs and the request's figures.

        Raises:
            ValueError: Sampled tokens without logprobs, or observations with some.
        """
        if trainable == (log_probs is None) and tokens:
            raise ValueError("sampled tokens need logprobs, and observations must not bring any")
        self.tokens = [*self.tokens, *tokens]
        self.response_length += len(tokens)
        self.loss_mask = [*(self.loss_mask or ()), *[int(trainable)] * len(tokens)]
        logprobs = [0.0] * len(tokens) if log_probs is None else log_probs
        self.rollout_log_probs = [*(self.rollout_log_probs or ()), *logprobs]
        if meta_info is not None and "finish_reason" in meta_info:
            self._count(args, meta_info)

    def _count(self, args: Any, meta_info: Mapping[str, Any]) -> None:
        if getattr(args, "sglang_speculative_algorithm", None):
            self.spec_info.add(meta_info)
        self.prefix_cache_info.add(meta_info)
        if "weight_version" in meta_info:
            self.weight_versions.append(meta_info["weight_version"])
        self.status = _BY_FINISH[meta_info["finish_reason"]["type"]]


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"--reward-key needs rewards that are mappings, got {value!r}")
    return value


@dataclass
class RolloutFnTrainOutput:
    """What a rollout function returns for training."""

    samples: list[list[Any]]
    metrics: dict[str, Any] | None = None


@dataclass
class RolloutFnEvalOutput:
    """What a rollout function returns for an evaluation."""

    data: dict[str, dict[str, Any]]
    metrics: dict[str, Any] | None = None


@dataclass
class DynamicFilterOutput:
    """Whether a group is kept, and why not."""

    keep: bool
    reason: str | None = None
    keep_when_insufficient: bool = False
