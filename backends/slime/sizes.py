"""The arithmetic of batches: our words into slime's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backends.slime.gpus import Layout
from retrain.compose import make_tasks
from retrain.config import RunConfig
from retrain.errors import ConfigError

MAX_TOKENS_PER_GPU = 8192
"""Tokens of one forward and backward pass on a GPU, or one row's where that is more."""

ASSUMED_PROMPT = 512
"""Prompt tokens to reckon with where `max_prompt_len` is not set."""

_HYPER = "algorithm.hyperparameters"


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """How one iteration is cut up.

    Attributes:
        iterations: Rollout-then-train iterations.
        rows: Rollouts of one iteration.
        global_batch_size: Rollouts of one optimizer step.
        row_tokens: Tokens of the longest row.
        max_tokens_per_gpu: Tokens of one pass on a GPU; None where a pass has a fixed number of
            rows.
        save_interval: Iterations between checkpoints.
        eval_interval: Iterations between evaluations; None without one.
    """

    iterations: int
    rows: int
    global_batch_size: int
    row_tokens: int
    max_tokens_per_gpu: int | None
    save_interval: int
    eval_interval: int | None

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps of one iteration; slime drops the rollouts that fill no step."""
        return self.rows // self.global_batch_size


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How a model is spread over the GPUs that train.

    Attributes:
        tensor: GPUs that share a layer's matrices.
        pipeline: GPUs that share the layers.
        context: GPUs that share a row's tokens.
        data: Copies of the model.
        expert: GPUs that share the experts of a layer.
    """

    tensor: int
    pipeline: int
    context: int
    data: int
    expert: int = 1

    @classmethod
    def of(cls, options: Mapping[str, Any], layout: Layout) -> Parallelism:
        """What the `slime_X` options say.

        Raises:
            ConfigError: A copy of the model does not fit into the GPUs a whole number of times.
        """
        tensor, pipeline, context = (
            int(options.get(f"{name}_parallel_size") or 1)
            for name in ("tensor_model", "pipeline_model", "context")
        )
        one = tensor * pipeline * context
        if layout.train % one:
            raise ConfigError(
                f"{_HYPER}.slime_tensor_model_parallel_size: tensor {tensor} x pipeline "
                f"{pipeline} x context {context} = {one} GPUs hold one copy of the model, and "
                f"{layout.train} train: {layout.train} = {one} x {layout.train // one} + "
                f"{layout.train % one}; choose sizes whose product divides it"
            )
        expert = int(options.get("expert_model_parallel_size") or 1)
        _require_experts_fit(expert, options, pipeline, tensor, layout.train)
        return cls(tensor, pipeline, context, layout.train // one, expert)


def _require_experts_fit(
    expert: int, options: Mapping[str, Any], pipeline: int, tensor: int, gpus: int
) -> None:
    slices = int(options.get("expert_tensor_parallel_size") or tensor)
    one = expert * slices * pipeline
    if expert > 1 and gpus % one:
        raise ConfigError(
            f"{_HYPER}.slime_expert_model_parallel_size: experts {expert} x expert tensor {slices} "
            f"x pipeline {pipeline} = {one} GPUs hold one set of experts, and {gpus} train: {gpus} "
            f"= {one} x {gpus // one} + {gpus % one}; choose sizes whose product divides it"
        )


def batch_sizes(config: RunConfig, options: Mapping[str, Any], parallel: Parallelism) -> BatchSizes:
    """Cut a run up.

    Args:
        config: The run.
        options: Its `slime_X` options.
        parallel: How the model is spread.

    Raises:
        ConfigError: An optimizer step has rollouts for only some copies of the model.
    """
    hyper = config.algorithm.hyperparameters
    sft = config.algorithm.name == "sft"
    iterations = _iterations(config)
    plays_nothing = sft or config.evaluation is None
    _require_share(hyper.global_batch_size, parallel.data, options)
    return BatchSizes(
        iterations=iterations,
        rows=(
            hyper.global_batch_size
            if sft
            else hyper.rollout_batch_size * hyper.n_samples_per_prompt
        ),
        global_batch_size=hyper.global_batch_size,
        row_tokens=_row_tokens(config),
        max_tokens_per_gpu=_tokens_per_gpu(config, options, parallel),
        save_interval=hyper.save_interval or iterations,
        eval_interval=None if plays_nothing else config.eval_interval or iterations,
    )


def _rollouts(config: RunConfig) -> int:
    hyper = config.algorithm.hyperparameters
    return hyper.rollout_batch_size * hyper.n_samples_per_prompt


def _iterations(config: RunConfig) -> int:
    hyper = config.algorithm.hyperparameters
    if hyper.num_iterations is not None:
        return hyper.num_iterations
    if hyper.num_epochs is None:
        raise ConfigError(f"{_HYPER}: needs num_iterations or num_epochs")
    sft = config.algorithm.name == "sft"
    each = hyper.global_batch_size if sft else hyper.rollout_batch_size
    return math.ceil(hyper.num_epochs * len(make_tasks(config)) / each)


def _require_share(batch: int, copies: int, options: Mapping[str, Any]) -> None:
    """Every copy of the model gets as many rollouts of a step; Megatron demands it."""
    rows = int(options.get("micro_batch_size") or 1)
    if batch % (copies * rows):
        raise ConfigError(
            f"{_HYPER}.global_batch_size: {batch} rollouts of an optimizer step are not divided "
            f"by {copies} copies of the model x {rows} rows of a pass = {copies * rows}: {batch} = "
            f"{copies * rows} x {batch // (copies * rows)} + {batch % (copies * rows)}"
        )


def _row_tokens(config: RunConfig) -> int:
    hyper = config.algorithm.hyperparameters
    wanted = (hyper.max_prompt_len or ASSUMED_PROMPT) + hyper.max_response_len
    return min(wanted, hyper.max_context_len or wanted)


def _tokens_per_gpu(
    config: RunConfig, options: Mapping[str, Any], parallel: Parallelism
) -> int | None:
    if options.get("use_dynamic_batch_size", True) is False:
        return None
    given = options.get("max_tokens_per_gpu")
    if given is not None:
        return int(given)
    return max(MAX_TOKENS_PER_GPU, math.ceil(_row_tokens(config) / parallel.context))
