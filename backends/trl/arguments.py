"""A RunConfig as the keyword arguments of `GRPOConfig` or `SFTConfig`: nothing left to defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.trl.sizes import BatchSizes
from retrain.config import Hyperparameters, RunConfig


def grpo_arguments(
    config: RunConfig, sizes: BatchSizes, iterations: int, *, cuda: bool
) -> dict[str, Any]:
    """The arguments of `trl.GRPOConfig`, before `trl_X` options are laid over them.

    Args:
        config: The resolved configuration.
        sizes: How an iteration is cut up.
        iterations: How many iterations to train.
        cuda: Whether there is a GPU.
    """
    hyper = config.algorithm.hyperparameters
    name = config.algorithm.name
    return {
        **_shared(config, sizes, cuda=cuda),
        "max_steps": iterations * sizes.optimizer_steps,
        "steps_per_generation": sizes.steps_per_generation,
        "num_generations": hyper.n_samples_per_prompt,
        "max_completion_length": hyper.max_response_len,
        "temperature": hyper.temperature,
        "top_p": hyper.top_p,
        "top_k": max(hyper.top_k, 0),
        "beta": hyper.kl_coef,
        "epsilon": hyper.clip_eps_low,
        "epsilon_high": hyper.clip_eps_high,
        "loss_type": _loss_type(name, hyper.loss_aggregation),
        "importance_sampling_level": "sequence" if name == "gspo" else "token",
        "use_bias_correction_kl": False,
        "scale_rewards": "none",
        "shuffle_dataset": False,
        "disable_dropout": True,
        "mask_truncated_completions": False,
        "log_completions": False,
        "ignore_data_skip": True,
        "save_steps": _save_steps(hyper, sizes.optimizer_steps),
        **_reference(config),
    }


def sft_arguments(
    config: RunConfig, sizes: BatchSizes, steps: int, *, cuda: bool
) -> dict[str, Any]:
    """The arguments of `trl.SFTConfig`, before `trl_X` options are laid over them.

    Args:
        config: The resolved configuration.
        sizes: How a batch is cut up; a batch is one optimizer step.
        steps: How many optimizer steps to train.
        cuda: Whether there is a GPU.
    """
    return {
        **_shared(config, sizes, cuda=cuda),
        "max_steps": steps,
        "dataset_kwargs": {"skip_prepare_dataset": True},
        "packing": False,
        "max_length": None,
        "completion_only_loss": False,
        "save_steps": _save_steps(config.algorithm.hyperparameters, 1),
    }


def _shared(config: RunConfig, sizes: BatchSizes, *, cuda: bool) -> dict[str, Any]:
    hyper = config.algorithm.hyperparameters
    return {
        "output_dir": f"{config.output_dir}/checkpoints",
        "seed": config.seed,
        "per_device_train_batch_size": sizes.micro_batch,
        "gradient_accumulation_steps": sizes.accumulation,
        "learning_rate": hyper.learning_rate,
        "lr_scheduler_type": _schedule(hyper),
        "warmup_steps": hyper.warmup_steps,
        "optim": "adamw_torch",
        "weight_decay": hyper.weight_decay,
        "adam_beta1": hyper.adam_beta1,
        "adam_beta2": hyper.adam_beta2,
        "adam_epsilon": 1e-8,
        "max_grad_norm": hyper.max_grad_norm,
        **_device(config, cuda=cuda),
        "logging_strategy": "steps",
        "logging_steps": 1,
        "eval_strategy": "no",
        "save_strategy": "no" if hyper.save_interval is None else "steps",
        "save_total_limit": 2,
        "report_to": "none",
        "disable_tqdm": True,
    }


def _device(config: RunConfig, *, cuda: bool) -> Mapping[str, Any]:
    """Autocast and memory: bfloat16 autocast over float32 weights on a GPU, float32 on a CPU."""
    return {
        "use_cpu": not cuda,
        "bf16": cuda and config.model.torch_dtype in ("auto", "bfloat16"),
        "fp16": cuda and config.model.torch_dtype == "float16",
        "gradient_checkpointing": cuda,
        "dataloader_pin_memory": cuda,
    }


def _reference(config: RunConfig) -> Mapping[str, Any]:
    """What the reference model is loaded with: TRL knows the name of the policy's model only."""
    model = config.model
    if config.algorithm.hyperparameters.kl_coef == 0 or model.peft is not None:
        return {}
    given = {"revision": model.revision, "trust_remote_code": model.trust_remote_code or None}
    named = {key: value for key, value in given.items() if value is not None}
    return {"model_init_kwargs": named} if named else {}


def _schedule(hyper: Hyperparameters) -> str:
    if hyper.lr_schedule == "constant" and hyper.warmup_steps:
        return "constant_with_warmup"
    return str(hyper.lr_schedule)


def _save_steps(hyper: Hyperparameters, steps_per_iteration: int) -> int:
    return (hyper.save_interval or 1) * steps_per_iteration


def _loss_type(name: str, aggregation: str) -> str:
    if name == "dr_grpo":
        return "dr_grpo"
    return "dapo" if aggregation == "token" else "grpo"
