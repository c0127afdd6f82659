"""A RunConfig as a `Plan` for TRL: the arithmetic, the arguments and what cannot be honoured."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from backends.base import Plan, Problem, Severity
from backends.trl.arguments import grpo_arguments, sft_arguments
from backends.trl.options import check_options
from backends.trl.sizes import BatchSizes, micro_batch_size
from retrain.compose import make_tasks
from retrain.config import RunConfig
from retrain.errors import ConfigError

_HYPER = "algorithm.hyperparameters"


def make_plan(config: RunConfig) -> Plan:
    """Plan a run; reads the prompt source only where the number of iterations depends on it.

    Raises:
        ConfigError: A `trl_X` option or a size that cannot be.
    """
    import torch

    cuda = torch.cuda.is_available()
    sft = config.algorithm.name == "sft"
    options = _options(config, sft=sft)
    sizes = _sizes(config, options, sft=sft)
    iterations = _iterations(config, sft=sft)
    derived = (sft_arguments if sft else grpo_arguments)(config, sizes, iterations, cuda=cuda)
    return Plan(
        backend="trl",
        config=config,
        entry="trl.SFTTrainer" if sft else "trl.GRPOTrainer",
        arguments={**derived, **options},
        sizes={
            "iterations": iterations,
            "rollouts_per_iteration": sizes.rows,
            "rollouts_per_optimizer_step": sizes.global_batch_size,
            "optimizer_steps_per_iteration": sizes.optimizer_steps,
            "optimizer_steps": iterations * sizes.optimizer_steps,
            "micro_batch": sizes.micro_batch,
        },
        problems=(*_refusals(config), *_warnings(config, sft=sft)),
    )


def _options(config: RunConfig, *, sft: bool) -> dict[str, Any]:
    from trl import GRPOConfig, SFTConfig

    options = config.algorithm.hyperparameters.prefixed("trl")
    return check_options(options, SFTConfig if sft else GRPOConfig)


def _sizes(config: RunConfig, options: dict[str, Any], *, sft: bool) -> BatchSizes:
    hyper = config.algorithm.hyperparameters
    micro = micro_batch_size(hyper.global_batch_size, options.get("per_device_train_batch_size"))
    if sft:
        return BatchSizes(hyper.global_batch_size, hyper.global_batch_size, micro)
    return BatchSizes(
        rows=hyper.rollout_batch_size * hyper.n_samples_per_prompt,
        global_batch_size=hyper.global_batch_size,
        micro_batch=micro,
        inner_epochs=options.get("num_iterations", 1),
    )


def _iterations(config: RunConfig, *, sft: bool) -> int:
    hyper = config.algorithm.hyperparameters
    if hyper.num_iterations is not None:
        return hyper.num_iterations
    if hyper.num_epochs is None:
        raise ConfigError(f"{_HYPER}: needs num_iterations or num_epochs")
    per_iteration = hyper.global_batch_size if sft else hyper.rollout_batch_size
    return math.ceil(hyper.num_epochs * len(make_tasks(config)) / per_iteration)


def _refusals(config: RunConfig) -> list[Problem]:
    hyper = config.algorithm.hyperparameters
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    refused = {
        "rendering.history": (
            config.rendering.history == "template",
            "template opens a new segment where the template rewrites history, and TRL takes one "
            "row per episode; use keep",
        ),
        "model.peft": (config.model.peft is not None, "is not there yet on TRL; remove it"),
        f"{_HYPER}.kl_estimator": (
            hyper.kl_coef > 0 and hyper.kl_estimator != "k3",
            f"TRL's loss has k3 only, not {hyper.kl_estimator}; use k3",
        ),
        f"{_HYPER}.loss_aggregation": (
            config.algorithm.name == "dr_grpo" and "loss_aggregation" in hyper.given(),
            "dr_grpo divides by a constant (max_response_len); remove the key",
        ),
        "": (
            processes > 1,
            f"the in-process engine runs in one process, and this launch has {processes} "
            "(WORLD_SIZE); start retrain train without accelerate or torchrun",
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
    if "config.json" not in files:
        return f"{str(folder)!r} has no config.json; name a Hugging Face model folder"
    if not any(name.endswith((".safetensors", ".bin")) for name in files):
        return (
            f"{str(folder)!r} holds no weights (no *.safetensors file); download or make the "
            "model first"
        )
    return None


def _warnings(config: RunConfig, *, sft: bool) -> list[Problem]:
    hyper = config.algorithm.hyperparameters
    warned: list[tuple[str, bool, str]] = [
        (
            f"{_HYPER}.save_interval",
            hyper.save_interval is None,
            "is not set: no checkpoint is kept on the way, and a killed run starts again",
        ),
        (
            f"{_HYPER}.top_p",
            not sft and hyper.top_p < 1,
            "samples from a cut distribution, while the loss uses the whole one: biased",
        ),
        (
            f"{_HYPER}.top_k",
            not sft and hyper.top_k > 0,
            "samples from a cut distribution, while the loss uses the whole one: biased",
        ),
    ]
    return [Problem(key, text, Severity.WARNING) for key, wrong, text in warned if wrong]
