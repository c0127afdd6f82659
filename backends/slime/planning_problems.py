"""What the user should know of a plan for slime: what is refused, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.base import Problem, Severity
from backends.images import image_problems
from backends.slime.planning_refusals import refusals
from backends.slime.sizes import BatchSizes, Parallelism
from retrain.config import RunConfig

_HYPER = "algorithm.hyperparameters"


def config_problems(
    config: RunConfig, options: Mapping[str, Any], *, remote_code: bool
) -> list[Problem]:
    """What cannot be honoured.

    Args:
        config: The run.
        options: Its `slime_X` options.
        remote_code: Whether the model brings code of its own.
    """
    return [
        *refusals(config, options, remote_code=remote_code),
        *image_problems(config, _image_refusals(config, options)),
        *_warnings(config),
    ]


def _image_refusals(
    config: RunConfig, options: Mapping[str, Any]
) -> Mapping[str, tuple[bool, str]]:
    return {
        f"{_HYPER}.slime_spec": (
            not options.keys() & {"spec", "custom_model_provider_path"},
            "Megatron's model reads text only unless another provider is named: slime has one for "
            "Qwen3.5, slime_spec: [slime_plugins.models.qwen3_5_vl, get_qwen3_5_vl_model_provider]",
        ),
        "slime_laptop": (
            config.slime_laptop is not None,
            "the laptop's engine takes none; remove the section, and train on GPUs",
        ),
    }


def spread_problems(
    model: Mapping[str, Any], options: Mapping[str, Any], parallel: Parallelism
) -> list[Problem]:
    """Where a model's layers or experts cannot be shared as they are asked to be.

    Args:
        model: Megatron's arguments for it.
        options: The `slime_X` options.
        parallel: How it is spread.
    """
    found: list[Problem] = []
    layers, uneven = model.get("num_layers"), {"decoder_first_pipeline_num_layers"}
    uneven |= {"decoder_last_pipeline_num_layers", "pipeline_model_parallel_layout"}
    if layers and layers % parallel.pipeline and not uneven & options.keys():
        text = (
            f"{layers} layers = {parallel.pipeline} x {layers // parallel.pipeline} + "
            f"{layers % parallel.pipeline}; name the rest with "
            "slime_decoder_last_pipeline_num_layers"
        )
        found.append(Problem(f"{_HYPER}.slime_pipeline_model_parallel_size", text))
    experts, shares = model.get("num_experts"), parallel.expert
    if shares > 1 and (not experts or experts % shares):
        text = f"{experts or 'no'} experts cannot be shared by {shares} GPUs evenly; lower it"
        found.append(Problem(f"{_HYPER}.slime_expert_model_parallel_size", text))
    return found


def plan_problems(config: RunConfig, sizes: BatchSizes) -> list[Problem]:
    """What follows from the arithmetic."""
    hyper = config.algorithm.hyperparameters
    steps = sizes.iterations * sizes.optimizer_steps
    found: list[Problem] = []
    if hyper.warmup_steps >= steps:
        found.append(
            Problem(
                f"{_HYPER}.warmup_steps",
                f"{hyper.warmup_steps} are not fewer than the {steps} optimizer steps of the run, "
                "as Megatron demands; lower it",
            )
        )
    tokens = sizes.max_tokens_per_gpu
    if tokens is not None and tokens < sizes.row_tokens:
        found.append(
            _warning(
                "slime_max_tokens_per_gpu",
                f"{tokens} are fewer than the {sizes.row_tokens} of the longest row, which then "
                "stands in a pass of its own and may not fit",
            )
        )
    if sizes.eval_interval is not None:
        found.extend(_evaluation(config, sizes))
    return found


def _warnings(config: RunConfig) -> list[Problem]:
    hyper = config.algorithm.hyperparameters
    sft = config.algorithm.name == "sft"
    warned: list[tuple[str, bool, str]] = [
        (
            "model.torch_dtype",
            config.model.torch_dtype == "float32",
            "Megatron computes in bfloat16 here, with float32 master weights and optimizer: "
            "slime has no training in float32",
        ),
        (
            "model.threads",
            config.model.threads is not None and config.slime_laptop is None,
            "sets the threads of TRL's process; slime's nodes have theirs from cluster.env_vars "
            "(OMP_NUM_THREADS)",
        ),
        (
            f"{_HYPER}.save_interval",
            hyper.save_interval is None,
            "is not set: the only checkpoint is the last one, and a killed run starts again",
        ),
        (
            f"{_HYPER}.top_p",
            not sft and hyper.top_p < 1 and config.slime_laptop is None,
            "samples from a cut distribution: slime replays it in the loss, for which SGLang must "
            "carry slime's patch, as in slime's container",
        ),
        (
            f"{_HYPER}.top_k",
            not sft and hyper.top_k > 0,
            "samples from a cut distribution, while the loss uses the whole one: biased",
        ),
    ]
    return [Problem(key, text, Severity.WARNING) for key, wrong, text in warned if wrong]


def _evaluation(config: RunConfig, sizes: BatchSizes) -> list[Problem]:
    """Where slime's loops evaluate less often than TRL's."""
    interval = sizes.eval_interval
    found: list[Problem] = []
    if interval and sizes.iterations % interval:
        found.append(
            _warning(
                "eval_interval",
                f"slime evaluates after every {interval} iterations, and {sizes.iterations} is no "
                "multiple of it: the last weights are not evaluated (TRL evaluates them)",
            )
        )
    if config.asynchronous:
        found.append(
            _warning(
                "eval_interval",
                "slime's asynchronous loop does not evaluate before the first iteration",
            )
        )
    return found


def _warning(key: str, text: str) -> Problem:
    return Problem(f"{_HYPER}.{key}", text, Severity.WARNING)
