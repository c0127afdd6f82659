"""A RunConfig as options of slime's `train.py`: whatever matters is sent, nothing left to defaults.

slime's defaults are not retrain's (weight decay 0.01, linear decay, k1, the mean over rollouts,
dropout 0.1): the same key in both backends must give the same algorithm.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backends.slime.gpus import Layout
from backends.slime.options import estimator, half_precision, own_option
from backends.slime.sizes import BatchSizes
from backends.slime.slimes_manager import manager_arguments
from backends.slime.training_rows import BEFORE_STEP
from retrain.config import RunConfig

PLUGIN = "backends.slime.plugin"
"""The module of the functions that slime loads by path; dotted, as slime writes paths."""

TIS_CLIP = 2.0
"""The largest weight of a token under `importance_correction: tis`."""


def entry_of(config: RunConfig) -> str:
    """Which of slime's programs is run."""
    return "train_async.py" if config.asynchronous else "train.py"


def rl_arguments(
    config: RunConfig, model: Path, sizes: BatchSizes, layout: Layout
) -> dict[str, Any]:
    """The options of a reinforcement-learning run, before `slime_X` are laid over them.

    Args:
        config: The resolved configuration.
        model: The model's folder, absolute.
        sizes: How an iteration is cut up.
        layout: Which GPUs do what.
    """
    return {
        **_cluster(layout),
        **_folders(config, model, sizes),
        **_rollout(config, sizes),
        **_hooks(config, layout),
        **_evaluation(config, sizes),
        **_objective(config),
        **_shared(config, sizes),
    }


def sft_arguments(
    config: RunConfig, model: Path, sizes: BatchSizes, layout: Layout
) -> dict[str, Any]:
    """The options of supervised fine-tuning: an iteration is an optimizer step.

    Args:
        config: The resolved configuration.
        model: The model's folder, absolute.
        sizes: How a batch is cut up.
        layout: Which GPUs train.
    """
    hyper = config.algorithm.hyperparameters
    return {
        **_cluster(layout),
        **_folders(config, model, sizes),
        "num_rollout": sizes.iterations,
        "rollout_batch_size": sizes.rows,
        "n_samples_per_prompt": 1,
        "global_batch_size": sizes.global_batch_size,
        "rollout_max_response_len": hyper.max_response_len,
        "rollout_temperature": 1.0,
        "rollout_function_path": f"{PLUGIN}.sft_rollout",
        "data_source_path": f"{PLUGIN}.DataSource",
        "custom_rollout_log_function_path": f"{PLUGIN}.log_rollout",
        "custom_config_path": str(run_folder(config) / "slime.yaml"),
        "loss_type": "sft_loss",
        "calculate_per_token_loss": True,
        "disable_compute_advantages_and_returns": True,
        "debug_train_only": True,
        **_shared(config, sizes),
    }


def run_folder(config: RunConfig) -> Path:
    """The run's folder, absolute: slime runs in another process, and on other machines."""
    return config.output_dir.expanduser().absolute()


def _cluster(layout: Layout) -> dict[str, Any]:
    engines = {
        "rollout_num_gpus": layout.rollout,
        "rollout_num_gpus_per_engine": layout.per_engine,
        "num_gpus_per_node": layout.node_gpus,
    }
    together = {"colocate": True, "sglang_mem_fraction_static": 0.7} if layout.colocate else {}
    return {
        "actor_num_nodes": layout.nodes,
        "actor_num_gpus_per_node": layout.per_node,
        **(engines if layout.rollout else {}),
        **together,
    }


def _folders(config: RunConfig, model: Path, sizes: BatchSizes) -> dict[str, Any]:
    """Where weights come from and go to.

    `--load` wins once it holds a checkpoint, so that a resumed run has the same options; until
    then slime starts from `--ref-load`, which is the reference model too.
    """
    checkpoints = run_folder(config) / "checkpoints"
    return {
        "hf_checkpoint": str(model),
        "ref_load": str(model),
        "load": str(checkpoints / "slime"),
        "save": str(checkpoints / "slime"),
        "save_hf": str(checkpoints / "hf" / "{rollout_id}"),
        "save_interval": sizes.save_interval,
    }


def _rollout(config: RunConfig, sizes: BatchSizes) -> dict[str, Any]:
    hyper = config.algorithm.hyperparameters
    return {
        "num_rollout": sizes.iterations,
        "rollout_batch_size": hyper.rollout_batch_size,
        "n_samples_per_prompt": hyper.n_samples_per_prompt,
        "global_batch_size": sizes.global_batch_size,
        "rollout_temperature": hyper.temperature,
        "rollout_top_p": hyper.top_p,
        "rollout_top_k": hyper.top_k,
        "rollout_max_response_len": hyper.max_response_len,
        "rollout_max_context_len": hyper.max_context_len,
        "rollout_max_prompt_len": hyper.max_prompt_len,
    }


def _hooks(config: RunConfig, layout: Layout) -> dict[str, Any]:
    shared = {
        "data_source_path": f"{PLUGIN}.DataSource",
        "eval_function_path": f"{PLUGIN}.eval_rollout",
        "custom_reward_post_process_path": f"{PLUGIN}.reward_post_process",
        "custom_rollout_log_function_path": f"{PLUGIN}.log_rollout",
        "custom_eval_rollout_log_function_path": f"{PLUGIN}.log_eval",
        "custom_config_path": str(run_folder(config) / "slime.yaml"),
    }
    if config.rollout.owner == "retrain":
        return {"rollout_function_path": f"{PLUGIN}.generate_rollout", **shared}
    engines = max(layout.engines, 1)
    scored = "group_reward" if own_option(config, "group_rm", False) else "reward"
    return {
        "rollout_function_path": "slime.rollout.sglang_rollout.generate_rollout",
        "custom_generate_function_path": f"{PLUGIN}.generate",
        "custom_rm_path": f"{PLUGIN}.{scored}",
        "sglang_server_concurrency": -(-config.rollout.concurrency // engines),
        **manager_arguments(config, PLUGIN),
        **shared,
    }


def _evaluation(config: RunConfig, sizes: BatchSizes) -> dict[str, Any]:
    """Held-out episodes; the file is named for slime, which wants one, and read by our function."""
    if config.evaluation is None:
        return {}
    hyper = config.algorithm.hyperparameters
    return {
        "eval_interval": sizes.eval_interval,
        "eval_prompt_data": ["heldout", str(run_folder(config) / "config.yaml")],
        "n_samples_per_eval_prompt": config.evaluation.n_samples_per_prompt,
        "eval_temperature": config.eval_temperature,
        "eval_top_p": hyper.top_p,
        "eval_top_k": hyper.top_k,
        "eval_max_response_len": hyper.max_response_len,
    }


def _objective(config: RunConfig) -> dict[str, Any]:
    hyper = config.algorithm.hyperparameters
    constant = config.algorithm.name == "dr_grpo"
    kl = {
        "use_kl_loss": True,
        "kl_loss_coef": hyper.kl_coef,
        "kl_loss_type": hyper.kl_estimator,
    }
    tis = {"use_tis": True, "tis_clip": TIS_CLIP, "tis_clip_low": 0.0}
    return {
        "loss_type": "policy_loss",
        "advantage_estimator": estimator(config),
        "eps_clip": hyper.clip_eps_low,
        "eps_clip_high": hyper.clip_eps_high,
        "kl_coef": 0.0,
        "entropy_coef": 0.0,
        **(kl if hyper.kl_coef > 0 else {}),
        **(tis if hyper.importance_correction == "tis" else {"use_rollout_logprobs": True}),
        "calculate_per_token_loss": hyper.loss_aggregation == "token" and not constant,
        "custom_pg_loss_reducer_function_path": (
            "backends.slime.loss_reducer.constant_denominator" if constant else None
        ),
    }


def _shared(config: RunConfig, sizes: BatchSizes) -> dict[str, Any]:
    return {
        **_optimizer(config),
        **_memory(config, sizes),
        **_numbers(config),
        "custom_megatron_before_train_step_hook_path": BEFORE_STEP,
    }


def _optimizer(config: RunConfig) -> dict[str, Any]:
    """Adam and its schedule; a resumed run follows the schedule that it is given now.

    Otherwise Megatron refuses a checkpoint whose schedule has another length: a run that is to
    train longer than it was to. It takes one answer only, so the user's to follow the old one wins.
    """
    hyper = config.algorithm.hyperparameters
    return {
        "optimizer": "adam",
        "lr": hyper.learning_rate,
        "min_lr": 0.0,
        "lr_decay_style": hyper.lr_schedule,
        "lr_warmup_iters": hyper.warmup_steps,
        "lr_warmup_init": 0.0,
        "override_opt_param_scheduler": not own_option(
            config, "use_checkpoint_opt_param_scheduler", False
        ),
        "weight_decay": hyper.weight_decay,
        "adam_beta1": hyper.adam_beta1,
        "adam_beta2": hyper.adam_beta2,
        "adam_eps": 1e-8,
        "clip_grad": hyper.max_grad_norm,
    }


def _memory(config: RunConfig, sizes: BatchSizes) -> dict[str, Any]:
    batches: dict[str, Any] = {"micro_batch_size": 1}
    if sizes.max_tokens_per_gpu is not None:
        batches = {
            "use_dynamic_batch_size": True,
            "max_tokens_per_gpu": sizes.max_tokens_per_gpu,
        }
    recompute = {
        "recompute_granularity": "full",
        "recompute_method": "uniform",
        "recompute_num_layers": 1,
    }
    wanted = own_option(config, "gradient_checkpointing", True)
    return {**batches, **(recompute if wanted else {})}


def _numbers(config: RunConfig) -> dict[str, Any]:
    """Seeds, and what keeps the trainer's logprobs those of the engine."""
    return {
        "seed": config.seed,
        "rollout_seed": config.seed,
        half_precision(config): True,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "accumulate_allreduce_grads_in_fp32": True,
        "attention_softmax_in_fp32": True,
    }
