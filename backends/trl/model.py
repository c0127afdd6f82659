"""Loading a model and its tokenizer from a folder or the Hugging Face hub."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM

from retrain.config import RunConfig
from retrain.errors import ConfigError


def load_model(config: RunConfig) -> Any:
    """Load the causal language model that `model:` names.

    `torch_dtype: auto` keeps float32 weights: AdamW's updates of 1e-6 vanish in bfloat16. On a GPU
    the forward pass still runs in bfloat16, by autocast.

    Raises:
        ConfigError: It cannot be loaded; the message says what is missing.
    """
    model = config.model
    dtype = torch.float32 if model.torch_dtype == "auto" else getattr(torch, model.torch_dtype)
    try:
        return AutoModelForCausalLM.from_pretrained(
            model.name_or_path,
            dtype=dtype,
            revision=model.revision,
            trust_remote_code=model.trust_remote_code,
        )
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"model.name_or_path: {model.name_or_path!r} cannot be loaded ({reason}); it must be a "
            "Hugging Face model folder, or a name on the hub"
        ) from error
