"""What a laptop run tells slime and Megatron-LM besides, or instead of, a cluster's run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backends.slime.laptop.engine import WEIGHTS
from backends.slime.model_config import find_model, read_model_config
from retrain.config import RunConfig
from retrain.errors import ConfigError

MODELS = ("llama", "qwen2", "qwen3")
"""Families of which `layer_spec` builds the layers: plain dense decoders."""


def laptop_arguments(config: RunConfig) -> dict[str, Any]:
    """Options that beat all others; needs neither checkout.

    Args:
        config: The resolved configuration.

    Raises:
        ConfigError: The model's layers need TransformerEngine, which needs a GPU.
    """
    _require_known_layers(config)
    return {
        **_one_process(),
        **_layers_without_gpu(),
        "update_weight_mode": "full",
        "update_weight_transport": "disk",
    }


def launch_arguments(run_dir: Path, engine_port: int | None) -> list[str]:
    """Words of the command line that are known only when the run starts.

    Args:
        run_dir: The run folder.
        engine_port: Where the engine listens on 127.0.0.1; None where nothing is generated. The
            engine is its own router.
    """
    weights = ["--update-weight-disk-dir", str(run_dir / WEIGHTS)]
    if engine_port is None:
        return weights
    return [
        *weights,
        *("--rollout-external-engine-addrs", f"127.0.0.1:{engine_port}"),
        *("--sglang-router-ip", "127.0.0.1", "--sglang-router-port", str(engine_port)),
    ]


def _one_process() -> dict[str, Any]:
    return {
        "actor_num_nodes": 1,
        "actor_num_gpus_per_node": 1,
        "num_gpus_per_node": 1,
        "tensor_model_parallel_size": 1,
        "pipeline_model_parallel_size": 1,
        "context_parallel_size": 1,
        "distributed_backend": "gloo",
    }


def _layers_without_gpu() -> dict[str, Any]:
    """Megatron's own layers, none of its CUDA kernels, and no padding of the vocabulary.

    Padded, a small vocabulary would visibly change the trainer's logprobs: each row of padding
    has logit 0 and its share of the softmax.
    """
    return {
        "transformer_impl": "local",
        "spec": ["backends.slime.laptop.layer_spec", "packed_layer_spec"],
        "attention_backend": None,
        "sequence_parallel": None,
        "use_cpu_initialization": True,
        "no_gradient_accumulation_fusion": True,
        "no_rope_fusion": True,
        "no_masked_softmax_fusion": True,
        "no_bias_swiglu_fusion": True,
        "no_persist_layer_norm": True,
        "make_vocab_size_divisible_by": 1,
    }


def _require_known_layers(config: RunConfig) -> None:
    try:
        file = read_model_config(find_model(config.model.name_or_path, config.model.revision))
    except ConfigError:
        return  # the plan says so itself
    if file.model_type not in MODELS:
        raise ConfigError(
            f"slime_laptop: a {file.model_type} model needs TransformerEngine, and so a GPU; use "
            f"one of {', '.join(MODELS)}, or remove slime_laptop"
        )
