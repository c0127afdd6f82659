"""The `reward_setup` section: what is rewarded, how it is computed, and what is made of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic import model_validator as check

from retrain.config.section import At, JsonMapping, Positive, Seconds, Section, Texts, faults

Bounds = Annotated[tuple[float, float], Field(strict=False)]
"""A least and a largest value."""

NormalisationName = Literal["none", "clip", "running", "group", "rank"]
DistributionName = Literal["own", "last", "uniform", "discounted", "tokens"]
Discount = Annotated[float, Field(gt=0, le=1)]

Faults = list[tuple[At, str]]


class RewardComponentConfig(Section):
    """One reward function and what becomes of its value."""

    weight: float = Field(default=1.0, description="factor in the combination")
    params: JsonMapping = Field(
        default_factory=dict, description="keyword arguments of the function"
    )
    verifiers: Texts = Field(default=(), description="functions that must all hold")
    verifier_penalty: float = Field(default=0.0, description="the value when a verifier does not")
    on_failure: Literal["retry", "drop", "raise", "value"] = Field(
        default="drop",
        description="exception, timeout or NaN: try again and then mask the sample, mask it, end "
        "the run, or use `value`",
    )
    value: float | None = Field(default=None, description="the value for `on_failure: value`")
    retries: Annotated[int, Field(ge=0, le=100)] | None = Field(
        default=None,
        description="how often a failed call is made again; null: 2 with `on_failure: retry`, "
        "else 0",
    )
    timeout: Seconds | None = Field(
        default=None, description="seconds for one call; null: rollout.reward_timeout"
    )
    run_in: Literal["thread", "process"] = Field(
        default="thread",
        description="process: call it in a process, which is killed where it is late",
    )
    batch_size: Positive | None = Field(
        default=None, description="most episodes in one call of a function over many; null: all"
    )
    batch_tokens: Positive | None = Field(
        default=None,
        description="most tokens in one such call: episodes times the longest one; null: no bound",
    )
    reward_key: str | None = Field(
        default=None,
        min_length=1,
        description="where the number stands in a reward that is a mapping",
    )
    distribution: DistributionName | None = Field(
        default=None, description="how the value is recorded over the turns; null: not recorded"
    )
    discount: Discount | None = Field(
        default=None,
        description="from a turn to the next: of step rewards, and of `distribution: discounted`",
    )
    normalisation: NormalisationName = Field(
        default="none", description="what becomes of the value before it is trained on"
    )
    clip: Bounds | None = Field(
        default=None, description="[least, largest] of the value after its normalisation"
    )

    @check(mode="after")
    def _consistent(self) -> RewardComponentConfig:
        found = clip_faults(self.normalisation, self.clip)
        if (self.on_failure == "value") != (self.value is not None):
            found.append((("value",), "must be set with `on_failure: value`, and only then"))
        if self.on_failure == "retry" and self.retries == 0:
            found.append((("retries",), "expected at least 1 with `on_failure: retry`, got 0"))
        if self.verifier_penalty and not self.verifiers:
            found.append((("verifier_penalty",), "is for `verifiers`, and there is none"))
        if self.distribution == "discounted" and self.discount is None:
            found.append((("discount",), "must be set with `distribution: discounted`"))
        if found:
            raise faults(*found)
        return self


class RewardSetupConfig(Section):
    """The components, how they make the reward, and what of it is trained on."""

    step_reward_configs: dict[str, RewardComponentConfig] = Field(
        default_factory=dict, description="per turn: name or package.module:function"
    )
    rollout_reward_configs: dict[str, RewardComponentConfig] = Field(
        default_factory=dict, description="per episode: name or package.module:function"
    )
    environment_reward_weight: float = Field(
        default=1.0, description="weight of the environment's own rewards"
    )
    environment_reward_discount: Discount = Field(
        default=1.0, description="factor of the environment's own rewards from a turn to the next"
    )
    combination: str = Field(
        default="sum",
        min_length=1,
        description="sum, mean, min, product, or package.module:function of (values, weights)",
    )
    missing: Literal["leave_out", "rescale"] = Field(
        default="leave_out",
        description="where components have no value: leave them out of the sum, or also bring it "
        "to the scale of a whole one",
    )
    normalisation: NormalisationName = Field(
        default="none", description="what becomes of the combination before it is trained on"
    )
    clip: Bounds | None = Field(
        default=None, description="[least, largest] of it after its normalisation"
    )

    @check(mode="after")
    def _consistent(self) -> RewardSetupConfig:
        found = clip_faults(self.normalisation, self.clip)
        if self.missing == "rescale" and self.combination != "sum":
            found.append(
                (("missing",), f"rescale is for `combination: sum`, not for {self.combination}")
            )
        for name, component in self.step_reward_configs.items():
            found += _of_turns(("step_reward_configs", name), component)
        for name, component in self.rollout_reward_configs.items():
            found += _of_episodes(("rollout_reward_configs", name), component)
        if found:
            raise faults(*found)
        return self


def clip_faults(normalisation: str, clip: tuple[float, float] | None) -> Faults:
    """What is wrong with a normalisation and its bounds."""
    if normalisation == "clip" and clip is None:
        return [(("clip",), "must be set with `normalisation: clip`: [least, largest]")]
    if clip is not None and clip[0] >= clip[1]:
        return [(("clip",), f"expected [least, largest], got {list(clip)}")]
    return []


def _of_turns(at: At, component: RewardComponentConfig) -> Faults:
    """What a function of one turn cannot have."""
    return [
        ((*at, key), "is for functions of many episodes, under rollout_reward_configs")
        for key in ("batch_size", "batch_tokens")
        if getattr(component, key) is not None
    ]


def _of_episodes(at: At, component: RewardComponentConfig) -> Faults:
    """What a function of episodes cannot have."""
    found: Faults = []
    if component.distribution == "own":
        found.append(((*at, "distribution"), "own is for step rewards, which have a value a turn"))
    if component.discount is not None and component.distribution != "discounted":
        found.append(
            ((*at, "discount"), "a rollout reward takes it with `distribution: discounted` only")
        )
    return found
