"""`trl_X` options: checked against TRL's own configuration classes, by name, type and choice."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from backends.trl.vllm_planning import TAKEN
from retrain.errors import ConfigError, nearest

_OWNED = "retrain derives it; set {}"
_DATA = "the order of tasks is the data buffer's"
_LOGPROBS = "retrain gives the engine's logprobs; set importance_correction"
_SAMPLES = "the engine samples what the loss is over, and does not know it"
_ENGINE = "the in-process engine is faster than it; trl_use_vllm is the other one"
_OF_VLLM = "retrain asks vLLM itself, turn by turn, and has no use for it"

REFUSED: Mapping[str, str] = {
    "scale_rewards": "retrain computes the advantages; set algorithm.name",
    "multi_objective_aggregation": "retrain combines the rewards; set reward_setup",
    "reward_weights": "retrain combines the rewards; set weight in reward_setup",
    "mask_truncated_completions": "TRL would mask by the last token; retrain has its own status",
    "loss_type": _OWNED.format("algorithm.name and loss_aggregation"),
    "importance_sampling_level": _OWNED.format("algorithm.name: gspo"),
    "max_steps": _OWNED.format("num_iterations"),
    "num_train_epochs": _OWNED.format("num_iterations or num_epochs"),
    "gradient_accumulation_steps": _OWNED.format("global_batch_size"),
    "steps_per_generation": _OWNED.format("rollout_batch_size and global_batch_size"),
    "generation_batch_size": _OWNED.format("rollout_batch_size and n_samples_per_prompt"),
    "output_dir": _OWNED.format("output_dir"),
    "save_strategy": _OWNED.format("save_interval"),
    "save_steps": _OWNED.format("save_interval"),
    "save_only_model": "a checkpoint without optimizer state cannot be resumed",
    "eval_strategy": _OWNED.format("eval_interval"),
    "eval_steps": _OWNED.format("eval_interval"),
    "logging_strategy": "metrics.jsonl has one row per iteration",
    "logging_steps": "metrics.jsonl has one row per iteration",
    "resume_from_checkpoint": "use retrain train --resume",
    "ignore_data_skip": _DATA,
    "shuffle_dataset": _DATA,
    "train_sampling_strategy": _DATA,
    "remove_unused_columns": _DATA,
    "dataset_kwargs": "rows are tokenised by retrain",
    "packing": "rows are tokenised by retrain",
    "max_length": _OWNED.format("max_context_len"),
    "completion_only_loss": "labels come from the loss mask",
    "assistant_only_loss": "labels come from the loss mask",
    "auto_find_batch_size": "it would break groups; lower trl_per_device_train_batch_size",
    "disable_dropout": "dropout would make the trainer's logprobs differ from the engine's",
    "vllm_importance_sampling_correction": _LOGPROBS,
    "vllm_importance_sampling_mode": _LOGPROBS,
    "vllm_importance_sampling_clip_max": _LOGPROBS,
    "vllm_importance_sampling_clip_min": _LOGPROBS,
    "vllm_importance_sampling_cap": _LOGPROBS,
    "vllm_structured_outputs_regex": _SAMPLES,
    "repetition_penalty": _SAMPLES,
    "min_p": _SAMPLES,
    "generation_kwargs": _SAMPLES,
    "cache_implementation": _SAMPLES,
    "chat_template_kwargs": "retrain renders the prompts",
    "num_generations_eval": _OWNED.format("evaluation.n_samples_per_prompt"),
    "max_tool_calling_iterations": _OWNED.format("rollout.max_turns"),
    "eval_on_start": _OWNED.format("evaluation"),
    "load_best_model_at_end": "retrain evaluates, and TRL knows no best model; use save_interval",
    "use_transformers_paged": _ENGINE,
    "use_transformers_continuous_batching": _ENGINE,
    "use_bias_correction_kl": "it would change the KL estimator; set kl_estimator",
}
"""Options that would undo what retrain promises, each with the reason or the key to use."""


def check_options(options: Mapping[str, Any], config_class: type) -> dict[str, Any]:
    """Check `trl_X` options against a TRL configuration class.

    Args:
        options: X to value.
        config_class: `GRPOConfig` or `SFTConfig`.

    Returns:
        The options with their values as TRL types them.

    Raises:
        ConfigError: Listing every option that TRL does not have, that has the wrong type, or that
            would undo ours.
    """
    names = {field.name for field in dataclasses.fields(config_class) if field.init}
    hints = get_type_hints(config_class)
    checked: dict[str, Any] = {}
    wrong: list[str] = []
    for name, value in options.items():
        key = f"algorithm.hyperparameters.trl_{name}"
        if name in REFUSED or (name.startswith("vllm_") and name in names - TAKEN):
            wrong.append(f"{key}: is refused: {REFUSED.get(name, _OF_VLLM)}")
        elif name not in names:
            wrong.append(
                f"{key}: {config_class.__name__} has no option {name!r}; {nearest(name, names)}"
            )
        else:
            try:
                checked[name] = TypeAdapter(hints[name]).validate_python(value)
            except ValidationError as error:
                reasons = "; ".join(dict.fromkeys(item["msg"] for item in error.errors()))
                wrong.append(f"{key}: {value!r} is not what TRL takes ({reasons})")
    if wrong:
        raise ConfigError("\n".join(wrong))
    return checked
