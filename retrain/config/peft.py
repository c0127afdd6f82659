"""`model.peft`: low-rank adapters, over full or quantised weights."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic import model_validator as check

from retrain.config.section import Positive, Section, Texts, faults

ALL_LINEAR = "all-linear"
"""Every linear layer except the language-model head."""


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class PeftConfig(Section):
    """LoRA (Hu et al., 2021): trains r x (in + out) numbers per layer, and leaves the rest."""

    r: Positive = Field(default=16, description="rank of the adapters")
    lora_alpha: Positive = Field(default=32, description="an adapter is scaled by lora_alpha / r")
    lora_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="dropout before the adapters; sft only, since in reinforcement learning the "
        "trainer's logprobs must be the engine's",
    )
    target_modules: Annotated[Texts, BeforeValidator(_one_or_more)] = Field(
        default=(ALL_LINEAR,),
        min_length=1,
        description="names of linear layers (q_proj), or all-linear: all but the head",
    )
    use_rslora: bool = Field(default=False, description="scale by lora_alpha / sqrt(r) instead")
    bits: Literal[4, 8] | None = Field(
        default=None,
        description="QLoRA: keep the frozen weights in 4 (NF4) or 8 bits, by bitsandbytes",
    )

    @check(mode="after")
    def _all_or_names(self) -> PeftConfig:
        if ALL_LINEAR in self.target_modules and len(self.target_modules) > 1:
            raise faults((("target_modules",), f"{ALL_LINEAR} stands alone; remove the others"))
        return self
