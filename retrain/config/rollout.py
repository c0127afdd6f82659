"""The `rollout:` section: how episodes are run, and how an iteration's batch is filled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic import model_validator as check

from retrain.config.section import (
    At,
    NameOrMapping,
    Positive,
    Seconds,
    Section,
    faults,
)

FailureActionName = Literal["mask", "retry", "refill", "raise"]


class FailureConfig(Section):
    """What happens when an episode fails, by where it failed."""

    environment: FailureActionName = Field(default="mask", description="reset or step")
    tool: FailureActionName = Field(default="mask", description="a tool's infrastructure")
    rendering: FailureActionName = Field(default="mask", description="the chat template")
    engine: FailureActionName = Field(default="raise", description="after `engine_retries`")


class ExecutorConfig(Section):
    """Where environments run; the engine stays where it is."""

    type: Literal["local", "process", "ray"] = Field(
        default="local",
        description="in this process, in worker processes of this machine, or in Ray actors",
    )
    workers: Positive | None = Field(
        default=None,
        description="worker processes or actors; null: one per CPU of this machine or cluster",
    )
    episodes_per_worker: Positive = Field(
        default=16, description="episodes that a worker plays at a time; more wait"
    )
    max_restarts: int = Field(
        default=3,
        ge=0,
        description="times that an episode whose worker died begins again; and times in a row that "
        "a worker may die before it has made an environment, until the run stops",
    )
    cpus: float = Field(default=1.0, ge=0, description="CPUs that Ray keeps for an actor (ray)")
    resources: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="custom resources of an actor, by name (ray)"
    )
    address: str | None = Field(
        default=None,
        min_length=1,
        description="the cluster (ray): auto, HOST:PORT or ray://…; null: $RAY_ADDRESS, or a Ray "
        "of its own on this machine",
    )

    @check(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        return {"type": given} if isinstance(given, str) else given

    @check(mode="after")
    def _of_this_type(self) -> ExecutorConfig:
        readable = {"type"} | _OF_EXECUTORS[self.type]
        wrong = [key for key in _changed(self) if key not in readable]
        if wrong:
            raise faults(*(((key,), _for_others(key, self.type)) for key in wrong))
        return self


_POOL = frozenset({"workers", "episodes_per_worker", "max_restarts"})
_OF_EXECUTORS: Mapping[str, frozenset[str]] = {
    "local": frozenset(),
    "process": _POOL,
    "ray": _POOL | {"cpus", "resources", "address"},
}
"""The type of an executor to the keys that it reads."""


class RolloutConfig(Section):
    """How episodes are run, and how an iteration's batch is filled."""

    engine: NameOrMapping = Field(
        default="transformers",
        description="what writes the turns of `rollout` and `eval`, and in training on torch: "
        "transformers, sglang, openai, vllm or package.module:function, alone or as {name: …, "
        "urls: …}",
    )
    owner: Literal["retrain", "slime"] = Field(
        default="retrain",
        description="who fills an iteration: retrain's collector, or slime's own rollout manager, "
        "which then calls one episode at a time (slime only)",
    )
    concurrency: Positive = Field(default=64, description="episodes at a time")
    executor: ExecutorConfig = Field(
        default_factory=ExecutorConfig,
        description="where environments run: local, process or ray, alone or as a section",
    )
    over_sampling_factor: float = Field(
        default=1.0,
        ge=1.0,
        description="groups in play for each one that the batch still misses; above 1, the batch "
        "takes those that finish first",
    )
    partial: bool = Field(
        default=True,
        description="keep the groups that are half played when the batch is full, and let them go "
        "on in the next iteration; false gives them up, so that long episodes are trained on less",
    )
    buffer_filter: str = Field(
        default="pop_first",
        min_length=1,
        description="which half-played groups go on first: pop_first, oldest_first, "
        "longest_partial_first, freshest_weights or package.module:function",
    )
    max_staleness: int | None = Field(
        default=None,
        ge=0,
        description="weight updates that a group may have seen since it was begun; an older one is "
        "begun again. null: any number",
    )
    mask_stale_tokens: bool = Field(
        default=False, description="do not train on tokens that older weights wrote"
    )
    filter: NameOrMapping | None = Field(
        default=None,
        description="which groups are trained on: a filter's name or package.module:function, "
        "alone or as {name: …, PARAMETER: …}, {all_of: […]}, {any_of: […]} or {not: …}",
    )
    filter_fallback: bool = Field(
        default=False,
        description="where more than `max_refills` are dropped: fill the batch with dropped groups "
        "instead of ending the run",
    )
    max_refills: float = Field(
        default=8.0, ge=0, description="groups that a batch may drop, in multiples of its size"
    )
    asynchronous: bool = Field(
        default=False,
        description="collect the next batch while this one is trained on; its weights are then at "
        "least one update old. slime, TRL with trl_vllm_mode: server, or torch with servers",
    )
    failure: FailureConfig = Field(default_factory=FailureConfig, description="see below")
    engine_retries: int = Field(default=2, ge=0, description="retries of a turn, same seed")
    episode_retries: int = Field(default=2, ge=0, description="retries of a `retry` failure")
    max_failure_rate: float = Field(
        default=0.5, ge=0, le=1, description="share of a batch that may fail before the run stops"
    )
    max_turns: Positive | None = Field(default=None, description="model turns of an episode")
    stop_strings: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)
    ] = Field(default=(), description="a turn ends behind the token that completes one of them")
    step_timeout: Seconds = Field(default=60.0, description="seconds for reset, step or close")
    generate_timeout: Seconds = Field(default=600.0, description="seconds for one model turn")
    reward_timeout: Seconds = Field(default=60.0, description="seconds for one reward function")
    episode_timeout: Seconds | None = Field(default=None, description="seconds for an episode")

    @check(mode="after")
    def _consistent(self) -> RolloutConfig:
        changed = _changed(self)
        found: list[tuple[At, str]] = []
        if not self.partial and "buffer_filter" in changed:
            text = "chooses among half-played groups, and partial: false keeps none; remove one"
            found.append((("buffer_filter",), text))
        if self.filter is None:
            text = "is about groups that a filter drops; set rollout.filter too, or remove it"
            found += [
                ((key,), text) for key in ("filter_fallback", "max_refills") if key in changed
            ]
        if found:
            raise faults(*found)
        return self


def _changed(section: Section) -> list[str]:
    """The keys that do not hold their default; a resolved file writes the others too."""
    fields = type(section).model_fields
    return [
        key
        for key, field in fields.items()
        if getattr(section, key) != field.get_default(call_default_factory=True, validated_data={})
    ]


def _for_others(key: str, type_: str) -> str:
    owners = " and ".join(name for name, keys in _OF_EXECUTORS.items() if key in keys)
    return f"means nothing to type {type_}; it is for {owners}"
