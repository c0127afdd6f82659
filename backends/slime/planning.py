"""A RunConfig as a `Plan` for slime: the layout, the arithmetic and the exact options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import Plan, Problem, Severity
from backends.slime.arguments import entry_of, rl_arguments, sft_arguments
from backends.slime.argv import to_argv
from backends.slime.flags import known_flags
from backends.slime.flags_source import SlimeSource, find_source, undeclared
from backends.slime.gpus import Cluster, Layout, Wanted
from backends.slime.layout import choose_layout
from backends.slime.memory import training_memory
from backends.slime.model_arguments import model_arguments, model_notes
from backends.slime.model_config import find_model, read_model_config
from backends.slime.options import check_options
from backends.slime.planning_problems import config_problems, plan_problems, spread_problems
from backends.slime.sizes import BatchSizes, Parallelism, batch_sizes
from retrain.config import RunConfig, redact
from retrain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """What is known of the model.

    Attributes:
        folder: Its folder.
        arguments: Megatron's arguments for it; empty where they cannot be told.
        problems: Why they cannot be, and what the frameworks do otherwise than each other.
        remote_code: Whether it brings code of its own.
    """

    folder: Path
    arguments: Mapping[str, Any]
    problems: tuple[Problem, ...] = ()
    remote_code: bool = False


def make_plan(config: RunConfig, cluster: Cluster | None = None) -> Plan:
    """Plan a run; slime, Megatron, SGLang, Ray and torch need not be installed.

    Args:
        config: The resolved configuration.
        cluster: What Ray reports; None before it is asked. The layout that the configuration leaves
            open, and one that does not fit, is decided by it.

    Raises:
        ConfigError: A `slime_X` option, a size or a layout that cannot be.
    """
    source = find_source(config)
    options = check_options(config, source.flags if source else {})
    laptop = _laptop(config)
    layout, moved = _layout(config, options, cluster, laptop=bool(laptop))
    parallel = Parallelism.of({**options, **laptop}, layout)
    sizes = batch_sizes(config, options, parallel)
    model = _model(config, options)
    arguments = {
        **_arguments(config, model, sizes, layout, parallel),
        **_without_layout(options),
        **laptop,
    }
    sent = {name: value for name, value in arguments.items() if _sent(name, value)}
    return Plan(
        backend="slime",
        config=config,
        entry=entry_of(config),
        arguments=sent,
        sizes=_sizes(sizes, layout, parallel),
        problems=(
            *_source_problems(source, sent),
            *model.problems,
            *spread_problems({**model.arguments, **options}, options, parallel),
            *config_problems(config, options, remote_code=model.remote_code),
            *moved,
            *plan_problems(config, sizes),
        ),
        memory=training_memory(model.folder, {**model.arguments, **options}, parallel),
        command=("python3", entry_of(config), *to_argv(redact(sent))),
    )


def _sent(name: str, value: Any) -> bool:
    """Whether an argument says anything; False turns off what has a spelling for it."""
    if value is False:
        flag = known_flags().get(name)
        return flag is not None and bool(flag.negation)
    return value is not None


def _arguments(
    config: RunConfig,
    model: PlannedModel,
    sizes: BatchSizes,
    layout: Layout,
    parallel: Parallelism,
) -> dict[str, Any]:
    derive = sft_arguments if config.algorithm.name == "sft" else rl_arguments
    latent = model.arguments.get("multi_latent_attention", False)
    return {
        **derive(config, model.folder, sizes, layout),
        "tensor_model_parallel_size": parallel.tensor,
        "pipeline_model_parallel_size": parallel.pipeline,
        "context_parallel_size": parallel.context,
        "sequence_parallel": parallel.tensor > 1,
        "attention_backend": None if latent else "flash",
        **model.arguments,
        **_vocabulary(model.arguments.get("vocab_size"), parallel.tensor),
    }


def _vocabulary(size: int | None, tensor: int) -> dict[str, Any]:
    """Keep Megatron from padding the vocabulary, where the GPUs share it evenly.

    A row of padding has logit 0 and its share of the softmax: in a small vocabulary the trainer's
    logprobs would differ from the engine's.
    """
    if size is None or size % tensor:
        return {}
    divisor = math.gcd(size // tensor, MEGATRON_PADS_TO)
    return {} if divisor == MEGATRON_PADS_TO else {"make_vocab_size_divisible_by": divisor}


MEGATRON_PADS_TO = 128
"""Megatron pads the vocabulary to a multiple of this, for each of the GPUs that share it."""


def _laptop(config: RunConfig) -> dict[str, Any]:
    """What slime needs to run without a GPU, where `slime_laptop` asks for that."""
    if config.slime_laptop is None:
        return {}
    from backends.slime.laptop.arguments import laptop_arguments

    return dict(laptop_arguments(config))


def _layout(
    config: RunConfig, options: Mapping[str, Any], cluster: Cluster | None, *, laptop: bool
) -> tuple[Layout, list[Problem]]:
    if laptop:
        return Layout(1, 1, 0, 1, 1, colocate=False), []
    elsewhere = options.get("rollout_external_engine_addrs") is not None
    wanted = Wanted(
        nodes=options.get("actor_num_nodes"),
        per_node=options.get("actor_num_gpus_per_node"),
        rollout=options.get("rollout_num_gpus"),
        per_engine=options.get("rollout_num_gpus_per_engine") or 1,
        node_gpus=options.get("num_gpus_per_node"),
        colocate=options.get("colocate"),
        generates=config.algorithm.name != "sft" and not elsewhere,
        asynchronous=config.asynchronous,
    )
    return choose_layout(wanted, cluster)


_LAYOUT = frozenset(
    (
        "actor_num_nodes",
        "actor_num_gpus_per_node",
        "rollout_num_gpus",
        "rollout_num_gpus_per_engine",
        "num_gpus_per_node",
        "colocate",
        "use_dynamic_batch_size",
        "max_tokens_per_gpu",
    )
)
"""Options that the layout and the sizes have taken in."""


def _without_layout(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in _LAYOUT}


def _model(config: RunConfig, options: Mapping[str, Any]) -> PlannedModel:
    named = Path(config.model.name_or_path).expanduser().absolute()
    try:
        folder = find_model(config.model.name_or_path, config.model.revision)
    except ConfigError as error:
        if not (named / "config.json").is_file():
            return PlannedModel(named, {}, (_about_model(error),))
        folder, missing = named, [_about_model(error)]
    else:
        missing = []
    try:
        file = read_model_config(folder)
        derived = model_arguments(file, options)
    except ConfigError as error:
        return PlannedModel(folder, {}, (*missing, _about_model(error)))
    notes = [Problem(_KEY, note, Severity.WARNING) for note in model_notes(file)]
    return PlannedModel(folder, derived, (*missing, *notes), bool(file.get("auto_map")))


_KEY = "model.name_or_path"


def _about_model(error: ConfigError) -> Problem:
    return Problem(_KEY, str(error).removeprefix(f"{_KEY}: "))


def _source_problems(source: SlimeSource | None, sent: Mapping[str, Any]) -> list[Problem]:
    return [] if source is None else [*source.problems, *undeclared(source, sent)]


def _sizes(sizes: BatchSizes, layout: Layout, parallel: Parallelism) -> dict[str, int]:
    tokens = sizes.max_tokens_per_gpu
    return {
        "iterations": sizes.iterations,
        "rollouts_per_iteration": sizes.rows,
        "rollouts_per_optimizer_step": sizes.global_batch_size,
        "optimizer_steps_per_iteration": sizes.optimizer_steps,
        "optimizer_steps": sizes.iterations * sizes.optimizer_steps,
        "longest_row_tokens": sizes.row_tokens,
        **({} if tokens is None else {"max_tokens_per_gpu": tokens}),
        "training_gpus": layout.train,
        "model_copies": parallel.data,
        "engines": layout.engines,
        "gpus": layout.gpus,
    }
