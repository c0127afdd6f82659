"""`slime_X` options that are refused: they would undo what retrain does, or name it twice."""

from __future__ import annotations

from collections.abc import Mapping

_OWNED = "retrain derives it; set {}"
_HOOK = "retrain's own function stands there"
_ADVANTAGES = "retrain computes the advantages, and it would act on them afterwards"
_OFF_POLICY = _OWNED.format("importance_correction")
_DATA = "tasks come from prompt_source"
_RENDERING = "retrain renders the prompts and reads the replies; see rendering"
_REWARDS = "rewards come from reward_setup"
_MANAGER = "acts in slime's own rollout manager only; set rollout.owner: slime"
_EVALUATION = _OWNED.format("evaluation")
_FOLDER = _OWNED.format("output_dir")
_MODEL = _OWNED.format("model.name_or_path")

REFUSED: Mapping[str, str] = {
    "normalize_advantages": _ADVANTAGES,
    "use_opd": _ADVANTAGES,
    "custom_advantage_function_path": _ADVANTAGES,
    "disable_rewards_normalization": "retrain computes the advantages; set algorithm.name",
    "disable_grpo_std_normalization": "retrain computes the advantages; set algorithm.name",
    "custom_reward_post_process_path": _HOOK,
    "custom_convert_samples_to_train_data_path": "it would pass retrain's advantages by",
    "rollout_data_postprocess_path": "it would change the loss mask",
    "custom_loss_function_path": _OWNED.format("algorithm.name"),
    "custom_pg_loss_reducer_function_path": _OWNED.format("loss_aggregation"),
    "rollout_function_path": _HOOK,
    "eval_function_path": _HOOK,
    "custom_generate_function_path": _HOOK,
    "custom_rm_path": _HOOK,
    "data_source_path": _HOOK,
    "custom_rollout_log_function_path": _HOOK,
    "custom_eval_rollout_log_function_path": _HOOK,
    "custom_config_path": "retrain hands its own configuration over by it",
    "loss_type": _OWNED.format("algorithm.name"),
    "disable_compute_advantages_and_returns": _OWNED.format("algorithm.name"),
    "calculate_per_token_loss": _OWNED.format("loss_aggregation"),
    "use_kl_loss": _OWNED.format("kl_coef"),
    "kl_loss_type": _OWNED.format("kl_estimator"),
    "use_unbiased_kl": "retrain's KL divergence has no importance weight",
    "use_tis": _OFF_POLICY,
    "tis_clip": _OFF_POLICY,
    "tis_clip_low": _OFF_POLICY,
    "custom_tis_function_path": _OFF_POLICY,
    "use_rollout_logprobs": _OFF_POLICY,
    "lr_decay_style": _OWNED.format("lr_schedule"),
    "lr_warmup_fraction": _OWNED.format("warmup_steps"),
    "num_steps_per_rollout": _OWNED.format("global_batch_size"),
    "train_iters": _OWNED.format("num_iterations"),
    "train_samples": _OWNED.format("num_iterations"),
    "start_rollout_id": "use retrain train --resume",
    "seed": _OWNED.format("seed"),
    "rollout_seed": _OWNED.format("seed"),
    "hf_checkpoint": _MODEL,
    "load": _MODEL,
    "save": _FOLDER,
    "save_hf": _FOLDER,
    "no_save_optim": "a checkpoint without optimizer state cannot be resumed",
    "no_load_optim": "use retrain train --resume",
    "no_load_rng": "use retrain train --resume",
    "finetune": "use retrain train --resume",
    "prompt_data": _DATA,
    "input_key": _DATA,
    "label_key": _DATA,
    "metadata_key": _DATA,
    "tool_key": _DATA,
    "multimodal_keys": _DATA,
    "rollout_shuffle": _DATA,
    "disable_rollout_global_dataset": "the position in the data would not be saved",
    "apply_chat_template": _RENDERING,
    "apply_chat_template_kwargs": _RENDERING,
    "rollout_stop": _RENDERING,
    "rollout_stop_token_ids": "set rendering.stop_token_ids",
    "rollout_skip_special_tokens": _RENDERING,
    "loss_mask_type": "the loss mask comes from the tokens that the model wrote",
    "rm_type": _REWARDS,
    "rm_url": _REWARDS,
    "reward_key": _REWARDS,
    "eval_reward_key": _REWARDS,
    "eval_prompt_data": _EVALUATION,
    "eval_config": _EVALUATION,
    "eval_input_key": _EVALUATION,
    "eval_label_key": _EVALUATION,
    "eval_tool_key": _EVALUATION,
    "n_samples_per_eval_prompt": _OWNED.format("evaluation.n_samples_per_prompt"),
    "eval_temperature": _OWNED.format("evaluation.temperature"),
    "eval_top_p": _OWNED.format("top_p"),
    "eval_top_k": _OWNED.format("top_k"),
    "eval_max_response_len": _OWNED.format("max_response_len"),
    "debug_rollout_only": "nothing would be trained; use retrain rollout",
    "debug_train_only": "nothing would be generated; algorithm.name: sft trains on demonstrations",
    "load_debug_rollout_data": "it would train on another run's episodes",
    "megatron_config_path": "it would override what retrain sends",
}
"""Option to the reason, whatever its value."""

SLIME_MANAGER_ONLY: Mapping[str, str] = dict.fromkeys(
    (
        "over_sampling_batch_size",
        "partial_rollout",
        "mask_offpolicy_in_partial_rollout",
        "dynamic_sampling_filter_path",
        "buffer_filter_path",
        "rollout_sample_filter_path",
        "rollout_all_samples_process_path",
        "rollout_sample_hook_path",
        "group_rm",
    ),
    _MANAGER,
)
"""Options that nothing reads where retrain's collector fills an iteration."""

ONLY_AT: Mapping[str, tuple[object, str]] = {
    "kl_coef": (0, "it shapes the rewards after retrain has made advantages of them; set kl_coef"),
    "attention_dropout": (0, "dropout would make the trainer's logprobs differ from the engine's"),
    "hidden_dropout": (0, "dropout would make the trainer's logprobs differ from the engine's"),
}
"""Option to the one value that it may have, and why."""
