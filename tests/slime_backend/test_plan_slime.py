"""What a configuration becomes: arguments, sizes and problems."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from plan_configs import LAPTOP, make_config, model_folder
from plan_models import MODELS

from backends.base import Plan
from backends.slime.argv import to_argv
from backends.slime.gpus import Cluster
from backends.slime.planning import make_plan
from retrain.config import RunConfig, load_config
from retrain.errors import ConfigError

EXAMPLES = Path(__file__).parents[2] / "examples" / "calculator"
GIVEN = {"num_iterations": 10, "save_interval": 5, "slime_actor_num_gpus_per_node": 4}


@pytest.fixture
def config(tmp_path: Path) -> Any:
    """Makes a configuration; keyword arguments are hyperparameters."""

    def make(**hyper: Any) -> RunConfig:
        sections = hyper.pop("sections", {})
        name, evaluation = hyper.pop("name", "grpo"), hyper.pop("evaluation", False)
        given = {k: v for k, v in {**GIVEN, **hyper}.items() if v is not None}
        chosen = {"model": "qwen3-0.6B", "name": name, "evaluation": evaluation, "hyper": given}
        return make_config(tmp_path, chosen, **sections)

    return make


def errors(plan: Plan) -> str:
    return "\n".join(str(problem) for problem in plan.problems if problem.stops)


def warnings(plan: Plan) -> str:
    return "\n".join(str(problem) for problem in plan.problems if not problem.stops)


def test_every_default_of_ours_is_sent(config: Any) -> None:
    sent = make_plan(config()).arguments
    assert (
        sent.items()
        >= {
            "lr_decay_style": "constant",
            "lr_warmup_iters": 0,
            "min_lr": 0.0,
            "weight_decay": 0.0,
            "adam_beta1": 0.9,
            "adam_beta2": 0.98,
            "clip_grad": 1.0,
            "eps_clip": 0.2,
            "eps_clip_high": 0.2,
            "use_rollout_logprobs": True,
            "calculate_per_token_loss": True,
            "advantage_estimator": "grpo",
            "attention_dropout": 0.0,
            "hidden_dropout": 0.0,
            "seed": 7,
            "rollout_seed": 7,
            "use_dynamic_batch_size": True,
            "max_tokens_per_gpu": 8192,
        }.items()
    )
    assert not {"use_tis", "use_kl_loss", "normalize_advantages"} & sent.keys()


def test_no_problem_means_no_problem(config: Any) -> None:
    assert make_plan(config()).problems == ()


@pytest.mark.parametrize("name", ["k1", "k2", "k3"])
def test_the_kl_divergence_is_in_the_loss_and_names_its_estimator(config: Any, name: str) -> None:
    sent = make_plan(config(kl_coef=0.1, kl_estimator=name)).arguments
    assert (sent["use_kl_loss"], sent["kl_loss_coef"], sent["kl_loss_type"]) == (True, 0.1, name)
    assert sent["kl_coef"] == 0.0 and sent["ref_load"] == sent["hf_checkpoint"]


def test_importance_correction_chooses_whose_logprobs_are_old(config: Any) -> None:
    sent = make_plan(config(importance_correction="tis")).arguments
    assert (sent["use_tis"], sent["tis_clip"]) == (True, 2.0)
    assert "use_rollout_logprobs" not in sent


def test_the_mean_over_rollouts_is_slimes_own(config: Any) -> None:
    sent = make_plan(config(loss_aggregation="sequence")).arguments
    assert "calculate_per_token_loss" not in sent


def test_dr_grpo_divides_by_a_constant(config: Any) -> None:
    sent = make_plan(config(name="dr_grpo")).arguments
    assert sent["custom_pg_loss_reducer_function_path"].endswith(".constant_denominator")
    assert "calculate_per_token_loss" not in sent and sent["advantage_estimator"] == "grpo"


@pytest.mark.parametrize(
    ("name", "estimator"),
    [("grpo", "grpo"), ("rloo", "grpo"), ("dr_grpo", "grpo"), ("gspo", "gspo")],
)
def test_the_advantages_are_retrains(config: Any, name: str, estimator: str) -> None:
    sent = make_plan(config(name=name)).arguments
    assert sent["advantage_estimator"] == estimator
    assert sent["custom_reward_post_process_path"] == "backends.slime.plugin.reward_post_process"


def test_retrain_fills_an_iteration_by_default(config: Any) -> None:
    sent = make_plan(config()).arguments
    assert sent["rollout_function_path"] == "backends.slime.plugin.generate_rollout"
    assert not {"custom_generate_function_path", "custom_rm_path"} & sent.keys()


def test_slimes_manager_fills_it_where_that_is_asked_for(config: Any) -> None:
    rollout = {"rollout": {"owner": "slime", "concurrency": 10}}
    sent = make_plan(config(sections=rollout)).arguments
    assert sent["rollout_function_path"] == "slime.rollout.sglang_rollout.generate_rollout"
    assert sent["custom_generate_function_path"] == "backends.slime.plugin.generate"
    assert sent["custom_rm_path"] == "backends.slime.plugin.reward"
    assert sent["sglang_server_concurrency"] == 3, "10 episodes over 4 engines, rounded up"
    assert "dynamic_sampling_filter_path" not in sent


def test_slimes_manager_is_told_in_its_own_words_how_to_fill_it(config: Any) -> None:
    keys = {"over_sampling_factor": 1.6, "filter": "check_any_success", "mask_stale_tokens": True}
    sent = make_plan(config(sections={"rollout": {"owner": "slime", **keys}})).arguments
    assert sent["over_sampling_batch_size"] == math.ceil(sent["rollout_batch_size"] * 1.6)
    assert sent["dynamic_sampling_filter_path"] == "backends.slime.plugin.dynamic_filter"
    assert sent["partial_rollout"] and sent["mask_offpolicy_in_partial_rollout"]
    own = make_plan(config(sections={"rollout": keys})).arguments
    assert not {"over_sampling_batch_size", "partial_rollout"} & own.keys()
    dropping = {"owner": "slime", **keys, "partial": False}
    assert "partial_rollout" not in make_plan(config(sections={"rollout": dropping})).arguments


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"max_staleness": 1}, "rollout.max_staleness: slime's own rollout manager does not bound"),
        (
            {"max_staleness": 1, "asynchronous": True, "over_sampling_factor": 2.0},
            "rollout.max_staleness: slime's own rollout manager does not bound",
        ),
        ({"buffer_filter": "oldest_first"}, "rollout.buffer_filter: .*slime_buffer_filter_path"),
        ({"filter": "check_any_success", "max_refills": 2}, "rollout.max_refills: .* as often"),
    ],
)
def test_keys_that_slimes_manager_has_no_word_for_are_refused(
    config: Any, keys: dict[str, Any], said: str
) -> None:
    found = make_plan(config(sections={"rollout": {"owner": "slime", **keys}})).errors
    assert [re.search(said, str(problem)) is not None for problem in found] == [True]
    assert not make_plan(config(sections={"rollout": keys})).errors


def test_asynchronous_is_slimes_other_program(config: Any) -> None:
    made = config(sections={"rollout": {"asynchronous": True, "max_staleness": 1}})
    plan = make_plan(made)
    assert (plan.entry, plan.errors) == ("train_async.py", ())
    late = config(
        sections={"rollout": {"asynchronous": True, "max_staleness": 1}},
        slime_update_weights_interval=2,
    )
    (problem,) = make_plan(late).errors
    assert "rollout.max_staleness: 1 is less than slime_update_weights_interval 2" in str(problem)


@pytest.mark.parametrize(
    ("asynchronous", "interval", "said"),
    [(True, 0, "0: expected at least 1"), (False, 2, "2: slime's synchronous loop sends")],
)
def test_an_interval_that_slime_cannot_keep_is_refused(
    config: Any, asynchronous: bool, interval: int, said: str
) -> None:
    sections = {"rollout": {"asynchronous": asynchronous}}
    (problem,) = make_plan(config(sections=sections, slime_update_weights_interval=interval)).errors
    assert f"slime_update_weights_interval: {said}" in str(problem)
    kept = config(sections={"rollout": {"asynchronous": True}}, slime_update_weights_interval=2)
    assert not make_plan(kept).errors


def test_sft_trains_on_our_samples_and_generates_nothing(config: Any) -> None:
    plan = make_plan(config(name="sft", global_batch_size=8, evaluation=True))
    sent = plan.arguments
    assert sent["rollout_function_path"] == "backends.slime.plugin.sft_rollout"
    assert sent["loss_type"] == "sft_loss"
    for switch in (
        "calculate_per_token_loss",
        "disable_compute_advantages_and_returns",
        "debug_train_only",
    ):
        assert sent[switch] is True
    assert (sent["rollout_batch_size"], sent["n_samples_per_prompt"]) == (8, 1)
    assert not {"rollout_num_gpus", "colocate", "eval_interval"} & sent.keys()
    assert plan.sizes["engines"] == 0 and plan.sizes["gpus"] == 4


def test_the_sizes_are_those_that_trl_plans(config: Any) -> None:
    plan = make_plan(config(rollout_batch_size=6, n_samples_per_prompt=4, global_batch_size=12))
    assert (
        plan.sizes.items()
        >= {
            "iterations": 10,
            "rollouts_per_iteration": 24,
            "rollouts_per_optimizer_step": 12,
            "optimizer_steps_per_iteration": 2,
            "optimizer_steps": 20,
            "training_gpus": 4,
            "model_copies": 4,
        }.items()
    )


def test_epochs_become_iterations(config: Any) -> None:
    plan = make_plan(config(num_iterations=None, num_epochs=2, rollout_batch_size=3))
    assert plan.sizes["iterations"] == 5, "2 epochs x 7 prompts / 3 prompts, rounded up"
    assert plan.arguments["num_rollout"] == 5 and "num_epoch" not in plan.arguments


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ({"max_response_len": 100}, 8192),
        ({"max_response_len": 10000}, 10512),
        ({"max_response_len": 10000, "max_prompt_len": 2000}, 12000),
        ({"max_response_len": 10000, "max_context_len": 9000}, 9000),
        ({"max_response_len": 20000, "slime_context_parallel_size": 2}, 10256),
        ({"max_response_len": 100, "slime_max_tokens_per_gpu": 4096}, 4096),
    ],
)
def test_a_pass_holds_at_least_the_longest_row(
    config: Any, given: dict[str, Any], tokens: int
) -> None:
    plan = make_plan(config(**given))
    assert plan.arguments["max_tokens_per_gpu"] == plan.sizes["max_tokens_per_gpu"] == tokens


def test_a_fixed_number_of_rows_can_be_asked_for(config: Any) -> None:
    plan = make_plan(config(slime_use_dynamic_batch_size=False, slime_micro_batch_size=2))
    assert plan.arguments["micro_batch_size"] == 2
    assert not {"use_dynamic_batch_size", "max_tokens_per_gpu"} & plan.arguments.keys()
    assert "max_tokens_per_gpu" not in plan.sizes


def test_a_limit_below_the_longest_row_is_told(config: Any) -> None:
    plan = make_plan(config(max_response_len=1000, slime_max_tokens_per_gpu=500))
    assert "500 are fewer than the 1512 of the longest row" in warnings(plan)


def test_a_model_that_is_split_runs_in_sequence_parallel(config: Any) -> None:
    plan = make_plan(config(slime_tensor_model_parallel_size=2))
    assert plan.arguments["sequence_parallel"] is True
    assert plan.sizes["model_copies"] == 2
    assert "sequence_parallel" not in make_plan(config()).arguments


def test_gpus_that_hold_no_whole_copy_are_shown_the_arithmetic(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"tensor 3 x .* = 3 GPUs .* 4 = 3 x 1 \+ 1"):
        make_plan(config(slime_tensor_model_parallel_size=3))


def test_rollouts_that_the_copies_cannot_share_are_shown_the_arithmetic(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"6 rollouts .* 4 copies .* 6 = 4 x 1 \+ 2"):
        make_plan(config(rollout_batch_size=3, n_samples_per_prompt=2))


def test_the_last_weights_are_always_saved(config: Any) -> None:
    plan = make_plan(config(save_interval=None))
    assert plan.arguments["save_interval"] == 10, "the last iteration"
    assert plan.arguments["save"] and "{rollout_id}" in plan.arguments["save_hf"]
    assert "save_interval: is not set" in warnings(plan)


def test_a_resumed_run_has_the_options_of_a_fresh_one(config: Any) -> None:
    sent = make_plan(config()).arguments
    assert sent["load"] == sent["save"] and sent["ref_load"] == sent["hf_checkpoint"]


def test_evaluation_always_names_data(config: Any) -> None:
    assert "eval_interval" not in make_plan(config()).arguments
    sent = make_plan(config(evaluation=True)).arguments
    assert sent["eval_interval"] == 10, "before and after the run, as on TRL"
    name, path = sent["eval_prompt_data"]
    assert name == "heldout" and path.endswith("run/config.yaml")


def test_last_weights_that_slime_does_not_evaluate_are_told(config: Any) -> None:
    plan = make_plan(config(evaluation=True, eval_interval=3))
    assert "after every 3 iterations, and 10 is no multiple" in warnings(plan)
    assert warnings(make_plan(config(evaluation=True, eval_interval=5))) == ""


def test_the_asynchronous_loop_is_another_program(config: Any) -> None:
    plan = make_plan(config(slime_train_async=True, evaluation=True))
    assert plan.entry == "train_async.py" and "colocate" not in plan.arguments
    assert "train_async" not in plan.arguments
    assert "does not evaluate before the first" in warnings(plan)


def test_external_engines_take_no_gpu_of_ours(config: Any) -> None:
    plan = make_plan(config(slime_rollout_external_engine_addrs=["host:30000"]))
    assert plan.sizes["gpus"] == 4 and "colocate" not in plan.arguments
    assert to_argv(plan.arguments)[-2:] == ["--rollout-external-engine-addrs", "host:30000"]


def test_the_cluster_decides_what_the_configuration_leaves_open(config: Any) -> None:
    plan = make_plan(config(slime_actor_num_gpus_per_node=None), Cluster((4, 4)))
    assert plan.arguments["actor_num_nodes"] == 2
    assert plan.arguments["rollout_num_gpus"] == plan.sizes["gpus"] == 8
    assert "as Ray reports" in warnings(plan)


@pytest.mark.parametrize(
    ("hyper", "sections", "key", "reason"),
    [
        ({}, {"model": {"peft": {"r": 8}}}, "model.peft", "no adapters"),
        ({}, {"rollout": {"engine": "vllm"}}, "rollout.engine", "slime starts SGLang itself"),
        ({"name": "dr_grpo", "loss_aggregation": "token"}, {}, "loss_aggregation", "remove"),
        ({"name": "dr_grpo", "kl_coef": 0.1}, {}, "kl_coef", "dr_grpo's constant"),
        ({"max_prompt_len": 64, "max_context_len": 64}, {}, "max_prompt_len", "no token to write"),
        ({"warmup_steps": 10}, {}, "warmup_steps", "not fewer than the 10 optimizer steps"),
        ({}, {"output_dir": "runs/{x}"}, "output_dir", "rename"),
        (
            {"slime_partial_rollout": True},
            {"rollout": {"owner": "slime"}, "rendering": {"history": "template"}},
            "slime_partial_rollout",
            "several segments",
        ),
    ],
)
def test_what_slime_cannot_honour_is_an_error(
    config: Any, tmp_path: Path, hyper: dict[str, Any], sections: Any, key: str, reason: str
) -> None:
    if "model" in sections:
        sections = {"model": {"name_or_path": str(tmp_path / "model"), **sections["model"]}}
    plan = make_plan(config(**hyper, sections=sections))
    assert key in errors(plan) and reason in errors(plan)
    assert plan.arguments["lr"], "it is shown all the same"


@pytest.mark.parametrize(
    ("hyper", "dtype", "reason"),
    [
        ({}, "float32", "no training in float32"),
        ({"top_p": 0.9}, "auto", "must carry slime's patch"),
        ({"top_k": 20}, "auto", "biased"),
    ],
)
def test_what_differs_is_a_warning(
    config: Any, tmp_path: Path, hyper: dict[str, Any], dtype: str, reason: str
) -> None:
    model = {"name_or_path": str(tmp_path / "model"), "torch_dtype": dtype}
    plan = make_plan(config(**hyper, sections={"model": model}))
    assert errors(plan) == "" and reason in warnings(plan)


def test_threads_of_the_training_process_are_told_to_be_trls(config: Any, tmp_path: Path) -> None:
    model = {"name_or_path": str(tmp_path / "model"), "threads": 2}
    assert "OMP_NUM_THREADS" in warnings(make_plan(config(sections={"model": model})))


def test_half_precision_follows_the_model(config: Any, tmp_path: Path) -> None:
    model = {"name_or_path": str(tmp_path / "model"), "torch_dtype": "float16"}
    sent = make_plan(config(sections={"model": model})).arguments
    assert sent["fp16"] is True and "bf16" not in sent


def test_code_that_a_model_brings_needs_consent(config: Any, tmp_path: Path) -> None:
    made = config()
    folder = model_folder(tmp_path / "model", "qwen3-0.6B", {"auto_map": {"AutoConfig": "x.Y"}})
    assert "model.trust_remote_code" in errors(make_plan(made))
    model = {"name_or_path": str(folder), "trust_remote_code": True}
    consent = made.model_copy(update={"model": made.model.model_copy(update=model)})
    assert errors(make_plan(consent)) == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/no/such/model", "is no folder on this machine"),
        ("nobody/has-downloaded-this", "hf download nobody/has-downloaded-this"),
    ],
)
def test_a_model_that_is_not_here_is_an_error_of_the_plan(
    config: Any, name: str, reason: str
) -> None:
    plan = make_plan(config(sections={"model": {"name_or_path": name}}))
    assert reason in errors(plan) and "num_layers" not in plan.arguments


def test_a_model_without_weights_is_still_planned(config: Any, tmp_path: Path) -> None:
    made = config()
    (tmp_path / "model" / "model.safetensors").unlink()
    plan = make_plan(made)
    assert "holds no weights" in errors(plan) and plan.arguments["num_layers"] == 28


@pytest.mark.parametrize(
    ("text", "reason"), [("{", "cannot be read"), ("[]", "holds no JSON object")]
)
def test_a_damaged_config_json_is_an_error(
    config: Any, tmp_path: Path, text: str, reason: str
) -> None:
    made = config()
    (tmp_path / "model" / "config.json").write_text(text)
    assert reason in errors(make_plan(made))


def test_an_unknown_architecture_is_an_error_that_names_the_options(
    config: Any, tmp_path: Path
) -> None:
    made = config()
    unknown = {**MODELS["qwen3-0.6B"], "model_type": "gemma3_text"}
    (tmp_path / "model" / "config.json").write_text(json.dumps(unknown))
    assert "'gemma3_text'" in errors(make_plan(made))
    assert "slime_num_layers" in errors(make_plan(made))


def test_latent_attention_leaves_the_kernel_to_megatron(config: Any, tmp_path: Path) -> None:
    made = config()
    assert make_plan(made).arguments["attention_backend"] == "flash"
    (tmp_path / "model" / "config.json").write_text(json.dumps(MODELS["moonlight"]))
    assert "attention_backend" not in make_plan(made).arguments


def test_the_laptop_lays_its_options_over_and_asks_for_no_gpu(tmp_path: Path) -> None:
    plan = make_plan(make_config(tmp_path, LAPTOP))
    assert plan.arguments["distributed_backend"] == "gloo"
    assert "colocate" not in plan.arguments
    made = make_config(tmp_path, {**LAPTOP, "hyper": {**LAPTOP["hyper"], "top_p": 0.9}})
    assert "which the laptop's engine does not report" in errors(make_plan(made))


@pytest.mark.parametrize(
    ("vocabulary", "tensor", "divisor"),
    [(151936, 1, None), (151936, 2, 64), (354, 1, 2), (355, 1, 1), (355, 2, None)],
)
def test_the_vocabulary_is_not_padded_where_it_need_not_be(
    config: Any, tmp_path: Path, vocabulary: int, tensor: int, divisor: int | None
) -> None:
    made = config(slime_tensor_model_parallel_size=tensor)
    model_folder(tmp_path / "model", "qwen3-0.6B", {"vocab_size": vocabulary})
    assert make_plan(made).arguments.get("make_vocab_size_divisible_by") == divisor


def test_the_single_gpu_example_is_planned_without_a_question(tmp_path: Path) -> None:
    model = model_folder(tmp_path / "model", "qwen2.5-0.5B")
    plan = make_plan(load_config(EXAMPLES / "slime.yaml", [f"model.name_or_path={model}"]))
    assert plan.problems == () and plan.sizes["gpus"] == 1
    assert plan.arguments["colocate"] is True


def test_the_trl_example_needs_no_other_key(tmp_path: Path) -> None:
    model = model_folder(tmp_path / "model", "qwen2.5-0.5B")
    changed = [f"model.name_or_path={model}"]
    config = load_config(EXAMPLES / "config_pretrained.yaml", changed, "slime")
    assert errors(make_plan(config)) == ""


def test_experts_that_fill_no_whole_number_of_gpus_are_shown_the_arithmetic(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"experts 4 x expert tensor 2 .* = 8 GPUs .* 4 = 8 x 0"):
        make_plan(config(slime_tensor_model_parallel_size=2, slime_expert_model_parallel_size=4))


@pytest.mark.parametrize(
    ("model", "given", "reason"),
    [
        ("qwen3-0.6B", {"slime_expert_model_parallel_size": 2}, "no experts cannot be shared by 2"),
        ("minimax-m2", {"slime_pipeline_model_parallel_size": 4}, r"62 layers = 4 x 15 + 2"),
        ("qwen3-30B-A3B", {"slime_expert_model_parallel_size": 4}, ""),
    ],
)
def test_layers_and_experts_must_come_out_even(
    config: Any, tmp_path: Path, model: str, given: dict[str, Any], reason: str
) -> None:
    made = config(**given)
    model_folder(tmp_path / "model", model)
    found = errors(make_plan(made))
    assert reason in found and bool(reason) == bool(found)


def test_an_uneven_last_stage_can_be_named(config: Any, tmp_path: Path) -> None:
    last = {"slime_decoder_last_pipeline_num_layers": 14}
    made = config(slime_pipeline_model_parallel_size=4, **last)
    model_folder(tmp_path / "model", "minimax-m2")
    assert errors(make_plan(made)) == ""
