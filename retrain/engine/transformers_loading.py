"""Loads a model of transformers, and makes the in-process engine over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    BitsAndBytesConfig,
)
from transformers.utils import logging as transformers_logging

from retrain.config import ModelConfig
from retrain.engine.transformers_architectures import slots_that_fit
from retrain.engine.transformers_engine import TransformersEngine
from retrain.errors import ConfigError, MissingDependency
from retrain.vision.base import VisionProcessor

KV_BYTES = 2 * 1024**3
"""Memory for the engine's keys and values on a CPU; on a GPU it is a quarter of what is free."""


def load_model(model: ModelConfig) -> Any:
    """Load the causal language model that `model:` names.

    `torch_dtype: auto` keeps float32 weights: AdamW's updates of 1e-6 vanish in bfloat16. On a GPU
    the forward pass still runs in bfloat16, by autocast. `peft.bits` quantises the linear layers.

    Raises:
        ConfigError: It cannot be loaded; the message says what is missing.
        MissingDependency: It is to be quantised, and bitsandbytes is not installed.
    """
    dtype = weight_type(model)
    quantization = _quantization(model)
    chosen = {"revision": model.revision, "trust_remote_code": model.trust_remote_code}
    try:
        config = AutoConfig.from_pretrained(model.name_or_path, **chosen)
        loaded = model_class(config).from_pretrained(
            model.name_or_path, dtype=dtype, quantization_config=quantization, **chosen
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"model.name_or_path: {model.name_or_path!r} cannot be loaded ({reason}); it must be a "
            "Hugging Face model folder, or a name on the hub"
        ) from error
    if quantization is not None:
        _keep_gradients(loaded)
    return loaded


def model_class(config: Any) -> Any:
    """Which of transformers' automatic classes loads a model: with its eyes, where it has some.

    Qwen3.5 and others can also be loaded without: images would be ignored, and an export would have
    lost the weights that read them.

    Args:
        config: The model's configuration.
    """
    sees = type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    return AutoModelForImageTextToText if sees else AutoModelForCausalLM


def weight_type(model: ModelConfig) -> torch.dtype:
    """The type that a model's weights are loaded in, where they are not quantised."""
    named: torch.dtype = getattr(torch, model.torch_dtype, torch.float32)
    return named


def _quantization(model: ModelConfig) -> Any:
    """How bitsandbytes keeps the weights: NF4 with quantised constants (QLoRA), or LLM.int8()."""
    bits = None if model.peft is None else model.peft.bits
    if bits is None:
        return None
    if find_spec("bitsandbytes") is None:
        raise MissingDependency(
            "model.peft.bits: needs bitsandbytes; install it with: pip install 'retrain[qlora]'"
        )
    make: Any = BitsAndBytesConfig
    if bits == 8:
        return make(load_in_8bit=True)
    half = torch.bfloat16 if torch.cuda.is_available() else weight_type(model)
    return make(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=half,
    )


def _keep_gradients(model: Any) -> None:
    """Stop 4-bit layers from packing their weights for inference on a CPU.

    The packed ones have no backward pass, and nothing unpacks them: after the first generation,
    adapters would be trained on wrong gradients, silently (bitsandbytes 0.50, `Linear4bit.forward`
    on CPUs with AVX512-BF16).
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def load_engine(
    model: ModelConfig,
    *,
    longest: int | None,
    most: int,
    vision: VisionProcessor | None = None,
) -> TransformersEngine:
    """Load a model for rollouts only, onto the GPU where there is one.

    Args:
        model: The `model:` section.
        longest: Most tokens of an episode, the prompt included.
        most: Most episodes in play at the same time.
        vision: The model's image processor; None takes no images.

    Raises:
        ConfigError: The model cannot be loaded, or no episode fits into memory.
    """
    if model.threads is not None:
        torch.set_num_threads(model.threads)
    cuda = torch.cuda.is_available()
    with quiet_transformers():
        loaded = load_model(model)
    autocast = torch.bfloat16 if cuda and model.torch_dtype == "auto" else None
    quantised = model.peft is not None and model.peft.bits is not None  # loaded onto the GPU
    placed = loaded.to("cuda") if cuda and not quantised else loaded
    return fit_engine(placed, longest=longest, most=most, autocast=autocast, vision=vision)


def fit_engine(
    model: Any,
    *,
    longest: int | None,
    most: int,
    autocast: torch.dtype | None,
    vision: VisionProcessor | None = None,
) -> TransformersEngine:
    """Make an engine with as many KV slots as are needed and fit into memory.

    Args:
        model: A loaded model.
        longest: Most tokens of an episode, the prompt included.
        most: Most episodes in play at the same time.
        autocast: What to compute in; None computes in the model's own type.
        vision: The model's image processor; None takes no images.

    Raises:
        ConfigError: `longest` is not known, or not even one episode fits into memory.
    """
    if longest is None:
        raise ConfigError(
            "algorithm.hyperparameters.max_context_len: must be set, since the model's own "
            "configuration does not say how many positions it knows"
        )
    budget = torch.cuda.mem_get_info()[0] // 4 if torch.cuda.is_available() else KV_BYTES
    fit = slots_that_fit(model.config, longest, budget, autocast or model.dtype)
    return TransformersEngine(
        model,
        max_slots=max(1, min(fit, most)),
        max_seq_len=longest,
        autocast_dtype=autocast,
        vision=vision,
    )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep the progress bars and warnings of transformers off the terminal; errors are shown."""
    logging: Any = transformers_logging
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
