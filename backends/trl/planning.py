"""A RunConfig as a `Plan` for TRL: the arithmetic, the arguments and what cannot be honoured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from backends.base import Plan, Problem, Severity
from backends.images import image_problems
from backends.local.adapters import adapter_problems
from backends.local.fitting import memory_problems
from backends.local.outline import ModelOutline, ReadOutline, read_outline
from backends.trl.advice import what_to_lower
from backends.trl.ahead_planning import asynchronous_refusals
from backends.trl.arguments import grpo_arguments, sft_arguments
from backends.trl.launching import launch_problems, share_of
from backends.trl.memory_planning import (
    micro_batch_that_fits,
    plan_workload,
    trainer_bytes,
    trl_memory,
)
from backends.trl.options import check_options
from backends.trl.sizes import BatchSizes, micro_batch_size
from backends.trl.vllm_planning import (
    HINT,
    uses_vllm,
    vllm_arguments,
    vllm_problems,
)
from retrain.compose import make_tasks
from retrain.config import RunConfig
from retrain.environment.rewriting import rewrites_history
from retrain.errors import ConfigError
from retrain.launch import Launch

_HYPER = "algorithm.hyperparameters"
_ONE_ROW = "and TRL's GRPOTrainer takes one token stream per episode: "
_OTHER_ENGINE = (
    "training on TRL generates with the weights that it trains: in its own process (transformers), "
    f"or with vLLM; the other engines serve retrain rollout and retrain eval. {HINT}"
)


def make_plan(config: RunConfig, read: ReadOutline = read_outline) -> Plan:
    """Plan a run; reads the prompt source only where the number of iterations depends on it.

    Args:
        config: The resolved configuration.
        read: Gives the model's outline.

    Raises:
        ConfigError: A `trl_X` option or a size that cannot be.
    """
    import torch

    cuda = torch.cuda.is_available()
    sft = config.algorithm.name == "sft"
    options = _options(config, sft=sft)
    iterations = _iterations(config, sft=sft)
    derive = sft_arguments if sft else grpo_arguments

    def arguments_of(sizes: BatchSizes) -> dict[str, Any]:
        derived = derive(config, sizes, iterations, cuda=cuda)
        return {**derived, **vllm_arguments(config, options), **options}

    outline = read(config.model)
    launch = Launch.of()
    sizes = _sizes(config, options, launch, sft=sft)
    if outline is not None and "per_device_train_batch_size" not in options:
        sizes = _fitting(config, outline, arguments_of(sizes), sizes)
    arguments = arguments_of(sizes)
    if options and launch.processes == 1 and not options.keys() & {"deepspeed", "fsdp"}:
        _require_accepted(arguments, sft=sft)
    memory, warned = _memory(config, outline, arguments, sizes)
    return Plan(
        backend="trl",
        config=config,
        entry="trl.SFTTrainer" if sft else "trl.GRPOTrainer",
        arguments=arguments,
        sizes={
            "iterations": iterations,
            "rollouts_per_iteration": sizes.rows,
            "rollouts_per_optimizer_step": sizes.global_batch_size,
            "optimizer_steps_per_iteration": sizes.optimizer_steps,
            "optimizer_steps": iterations * sizes.optimizer_steps,
            "micro_batch": sizes.micro_batch,
            "processes": sizes.processes,
        },
        problems=(
            *_refusals(config, options),
            *vllm_problems(config, options),
            *launch_problems(config, options, launch),
            *adapter_problems(config, outline),
            *image_problems(config, _image_refusals(options)),
            *_warnings(config, sft=sft),
            *warned,
        ),
        memory=memory,
    )


def _require_accepted(arguments: dict[str, Any], *, sft: bool) -> None:
    """Ask TRL itself whether it takes these options together.

    Only in a single process: TRL's configuration connects several when it is made.

    Raises:
        ConfigError: It does not; the message is TRL's.
    """
    from trl import GRPOConfig, SFTConfig

    try:
        (SFTConfig if sft else GRPOConfig)(**arguments)
    except (ValueError, TypeError, ImportError, NotImplementedError) as error:
        raise ConfigError(f"{_HYPER}: TRL refuses these trl_ options: {error}") from error


def _fitting(
    config: RunConfig, outline: ModelOutline, arguments: dict[str, Any], sizes: BatchSizes
) -> BatchSizes:
    work = plan_workload(config, outline, arguments, sizes)
    micro = micro_batch_that_fits(
        outline, work, sizes.global_batch_size // sizes.processes, trainer_bytes(arguments)
    )
    return replace(sizes, micro_batch=micro)


def _memory(
    config: RunConfig, outline: ModelOutline | None, arguments: dict[str, Any], sizes: BatchSizes
) -> tuple[dict[str, int], list[Problem]]:
    if outline is None:
        return {}, []
    estimated = trl_memory(outline, plan_workload(config, outline, arguments, sizes))
    todo = what_to_lower(config, arguments)
    return estimated.as_mapping(), memory_problems(estimated, trainer_bytes(arguments), todo)


def _options(config: RunConfig, *, sft: bool) -> dict[str, Any]:
    from trl import GRPOConfig, SFTConfig

    options = config.algorithm.hyperparameters.prefixed("trl")
    return check_options(options, SFTConfig if sft else GRPOConfig)


def _sizes(config: RunConfig, options: dict[str, Any], launch: Launch, *, sft: bool) -> BatchSizes:
    hyper = config.algorithm.hyperparameters
    share = share_of("global_batch_size", hyper.global_batch_size, launch)
    micro = micro_batch_size(share, options.get("per_device_train_batch_size"))
    if sft:
        whole = hyper.global_batch_size
        return BatchSizes(whole, whole, micro, processes=launch.processes)
    share_of("rollout_batch_size", hyper.rollout_batch_size, launch)
    return BatchSizes(
        rows=hyper.rollout_batch_size * hyper.n_samples_per_prompt,
        global_batch_size=hyper.global_batch_size,
        micro_batch=micro,
        inner_epochs=options.get("num_iterations", 1),
        processes=launch.processes,
    )


def _iterations(config: RunConfig, *, sft: bool) -> int:
    hyper = config.algorithm.hyperparameters
    if hyper.num_iterations is not None:
        return hyper.num_iterations
    if hyper.num_epochs is None:
        raise ConfigError(f"{_HYPER}: needs num_iterations or num_epochs")
    per_iteration = hyper.global_batch_size if sft else hyper.rollout_batch_size
    return math.ceil(hyper.num_epochs * len(make_tasks(config)) / per_iteration)


def _refusals(config: RunConfig, options: Mapping[str, Any]) -> list[Problem]:
    hyper = config.algorithm.hyperparameters
    engine = config.rollout.engine
    name = engine if isinstance(engine, str) else engine.get("name")
    refused = {
        "rendering.history": (
            config.rendering.history == "template",
            f"template begins a new segment where the template rewrites what was said, {_ONE_ROW}"
            "use keep, or algorithm.backend: torch or slime",
        ),
        "environment.type": (
            config.algorithm.name != "sft"
            and rewrites_history(config.environment.type, config.environment.env_specific_config),
            f"{config.environment.type!r} rewrites its history (rewrites_history), {_ONE_ROW}use "
            "algorithm.backend: torch or slime, or an environment that only adds to what was said",
        ),
        "rollout.engine": (
            name not in ("transformers", "vllm" if uses_vllm(options) else "transformers")
            and config.algorithm.name != "sft",
            HINT if name == "vllm" else _OTHER_ENGINE,
        ),
        **asynchronous_refusals(config, options),
        f"{_HYPER}.kl_estimator": (
            hyper.kl_coef > 0 and hyper.kl_estimator != "k3",
            f"TRL's loss has k3 only, not {hyper.kl_estimator}; use k3",
        ),
        f"{_HYPER}.loss_aggregation": (
            config.algorithm.name == "dr_grpo" and "loss_aggregation" in hyper.given(),
            "dr_grpo divides by a constant (max_response_len); remove the key",
        ),
    }
    found = [Problem(key, message) for key, (wrong, message) in refused.items() if wrong]
    fault = _model_fault(Path(config.model.name_or_path))
    return [*found, Problem("model.name_or_path", fault)] if fault else found


def _image_refusals(options: Mapping[str, Any]) -> Mapping[str, tuple[bool, str]]:
    return {
        f"{_HYPER}.trl_use_vllm": (
            uses_vllm(options),
            "retrain gives vLLM no images; remove it, and the turns are written in this process",
        ),
    }


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
