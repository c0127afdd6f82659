"""A RunConfig as a `Plan` for the native loop: the arithmetic, and what cannot be honoured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.base import Plan, Problem, Severity
from backends.images import image_problems
from backends.local.adapters import adapter_problems
from backends.local.outline import ReadOutline, read_outline
from backends.torch.options import TorchOptions, read_options
from backends.torch.processes.launching import (
    IN_PROCESS,
    engine_name,
    launch_problems,
    sharding_arguments,
)
from backends.torch.run.memory_planning import with_memory
from backends.torch.run.server_planning import server_problems
from retrain.compose import make_tasks
from retrain.config import RunConfig
from retrain.errors import ConfigError
from retrain.launch import Launch

RL_ENTRY = "backends.torch.rl_loop.run_rl_training"
SFT_ENTRY = "backends.torch.sft_loop.run_sft_training"

_HYPER = "algorithm.hyperparameters"


def make_plan(config: RunConfig, read: ReadOutline = read_outline) -> Plan:
    """Plan a run; reads the prompt source only where the number of iterations depends on it.

    Args:
        config: The resolved configuration.
        read: Gives the model's outline.

    Raises:
        ConfigError: A `torch_X` option or a size that cannot be.
    """
    import torch

    hyper = config.algorithm.hyperparameters
    options = read_options(hyper.prefixed("torch"))
    sft = config.algorithm.name == "sft"
    iterations = _iterations(config, sft=sft)
    rows = hyper.global_batch_size
    if not sft:
        rows = hyper.rollout_batch_size * hyper.n_samples_per_prompt
    steps = max(1, rows // hyper.global_batch_size)
    cuda, launch = torch.cuda.is_available(), Launch.of()
    outline = read(config.model)
    plan = Plan(
        backend="torch",
        config=config,
        entry=SFT_ENTRY if sft else RL_ENTRY,
        arguments={
            "num_steps": iterations,
            **_optimizer(config, iterations * steps),
            **_passes(config, options, sft=sft, cuda=cuda),
            **sharding_arguments(options, launch),
            **({"batch_size": rows, "aggregation": "token"} if sft else _policy(config, options)),
            "checkpoint_every": hyper.save_interval,
            "seed": config.seed,
            "output_dir": str(config.output_dir),
        },
        sizes={
            "iterations": iterations,
            "rollouts_per_iteration": rows,
            "rollouts_per_optimizer_step": hyper.global_batch_size,
            "optimizer_steps_per_iteration": steps,
            "optimizer_steps": iterations * steps,
            "processes": launch.processes,
            "tokens_per_pass": launch.processes * options.micro_batch_tokens,
        },
        problems=(
            *launch_problems(config, launch),
            *server_problems(config, options),
            *_refusals(config),
            *image_problems(config, _NO_IMAGES),
            *adapter_problems(config, outline),
            *_warnings(config, sft=sft),
        ),
    )
    return with_memory(plan, outline, asked="torch_micro_batch_tokens" in hyper.given())


def _iterations(config: RunConfig, *, sft: bool) -> int:
    hyper = config.algorithm.hyperparameters
    if hyper.num_iterations is not None:
        return hyper.num_iterations
    if hyper.num_epochs is None:
        raise ConfigError(f"{_HYPER}: needs num_iterations or num_epochs")
    per_iteration = hyper.global_batch_size if sft else hyper.rollout_batch_size
    return math.ceil(hyper.num_epochs * len(make_tasks(config)) / per_iteration)


def _optimizer(config: RunConfig, total: int) -> dict[str, Any]:
    hyper = config.algorithm.hyperparameters
    return {
        "optimizer": "torch.optim.AdamW",
        "learning_rate": hyper.learning_rate,
        "schedule": hyper.lr_schedule,
        "warmup_steps": hyper.warmup_steps,
        "total_steps": total,
        "weight_decay": hyper.weight_decay,
        "beta1": hyper.adam_beta1,
        "beta2": hyper.adam_beta2,
        "epsilon": 1e-8,
        "max_grad_norm": hyper.max_grad_norm,
    }


def _passes(config: RunConfig, options: TorchOptions, *, sft: bool, cuda: bool) -> dict[str, Any]:
    checkpointing = options.gradient_checkpointing
    half = {"auto": "bfloat16", "bfloat16": "bfloat16"}.get(config.model.torch_dtype)
    half = half if cuda and options.mixed_precision else None
    return {
        "device_type": "cuda" if cuda else "cpu",
        "autocast": half,
        "micro_batch_tokens": options.micro_batch_tokens,
        "packing": options.packing,
        "gradient_checkpointing": cuda if checkpointing is None else checkpointing,
        "temperature": 1.0 if sft else config.algorithm.hyperparameters.temperature,
        "dropout": sft,
    }


def _policy(config: RunConfig, options: TorchOptions) -> dict[str, Any]:
    hyper, name = config.algorithm.hyperparameters, config.algorithm.name
    correction = hyper.importance_correction == "tis"
    return {
        "rollouts_per_step": hyper.global_batch_size,
        "aggregation": "constant" if name == "dr_grpo" else hyper.loss_aggregation,
        "constant": hyper.max_response_len,
        "clip_low": hyper.clip_eps_low,
        "clip_high": hyper.clip_eps_high,
        "sequence_level": name == "gspo",
        "kl_coef": hyper.kl_coef,
        "kl_estimator": hyper.kl_estimator,
        "truncated_importance": correction,
        "ahead": config.asynchronous,
        "colocate": options.colocate,
    }


_NO_IMAGES: Mapping[str, tuple[bool, str]] = {
    "algorithm.backend": (True, "the torch backend trains on text only; use trl or slime"),
}


def _refusals(config: RunConfig) -> list[Problem]:
    hyper, engine = config.algorithm.hyperparameters, engine_name(config)
    rl = config.algorithm.name != "sft"
    refused: Mapping[str, tuple[bool, str]] = {
        "rendering.history": (
            not rl and config.rendering.history == "template",
            "template may make several streams of one demonstration, and an epoch counts "
            "demonstrations; use keep for sft",
        ),
        "rollout.asynchronous": (
            rl and config.asynchronous and engine == IN_PROCESS,
            "the engine in the training process writes with the very weights that are trained on, "
            "so it cannot write the next batch meanwhile; use a server (rollout.engine: {name: "
            "sglang, urls: …}), or asynchronous: false",
        ),
        "rollout.mask_stale_tokens": (
            rl and config.asynchronous and config.rollout.mask_stale_tokens,
            "would mask nearly every token: a batch that is collected ahead is written by weights "
            "one update old; use importance_correction: tis, and max_staleness for a bound",
        ),
        "model.torch_dtype": (
            config.model.peft is None and config.model.torch_dtype == "float16",
            "AdamW's squared gradients underflow in float16, and the first step makes the weights "
            "NaN; use auto (float32 weights, computed in bfloat16 on a GPU)",
        ),
        f"{_HYPER}.loss_aggregation": (
            config.algorithm.name == "dr_grpo" and "loss_aggregation" in hyper.given(),
            "dr_grpo divides by a constant (max_response_len); remove the key",
        ),
    }
    found = [Problem(key, message) for key, (wrong, message) in refused.items() if wrong]
    fault = _model_fault(Path(config.model.name_or_path))
    return [*found, Problem("model.name_or_path", fault)] if fault else found


def _model_fault(folder: Path) -> str | None:
    """What a local model folder lacks; None for a good one, and for a name on the hub."""
    if not folder.is_dir():
        looks_like_path = folder.is_absolute() or folder.parts[:1] in ((".",), ("..",))
        return f"{str(folder)!r} is no folder" if looks_like_path else None
    files = {path.name for path in folder.iterdir()}
    if "config.json" in files and any(n.endswith((".safetensors", ".bin")) for n in files):
        return None
    return (
        f"{str(folder)!r} is no Hugging Face model (config.json and *.safetensors are needed); "
        "download or make the model first"
    )


def _warnings(config: RunConfig, *, sft: bool) -> list[Problem]:
    hyper = config.algorithm.hyperparameters
    cut = "samples from a cut distribution, while the loss uses the whole one: biased"
    unsaved = "is not set: no checkpoint is kept on the way, and a killed run starts again"
    coarse = config.model.peft is None and config.model.torch_dtype == "bfloat16"
    rounded = (
        f"AdamW's updates of learning_rate {hyper.learning_rate:g} are rounded off in bfloat16 "
        "weights wherever they are less than 1/512 of the weight; use auto (float32 weights, "
        "computed in bfloat16 on a GPU)"
    )
    warned = {
        "model.torch_dtype": (coarse, rounded),
        f"{_HYPER}.save_interval": (hyper.save_interval is None, unsaved),
        f"{_HYPER}.top_p": (not sft and hyper.top_p < 1, cut),
        f"{_HYPER}.top_k": (not sft and hyper.top_k > 0, cut),
    }
    return [Problem(key, text, Severity.WARNING) for key, (wrong, text) in warned.items() if wrong]
