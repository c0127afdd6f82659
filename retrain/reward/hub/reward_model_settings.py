"""Which reward model is used, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The parameters of `reward_model`, which says what each is."""

    name: str
    revision: str | None = None
    device: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_length: int | None = None
    truncation: Literal["left", "right"] = "left"
    batch_tokens: int = 16384
    index: int | None = None
    sigmoid: bool = False
    trust_remote_code: bool = False
