"""`TRLBackend.plan`: exactly what TRL will receive, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backends.base import Severity
from backends.trl.backend import TRLBackend
from backends.trl.options import REFUSED
from backends.trl.sizes import BatchSizes, micro_batch_size
from retrain.config import RunConfig
from retrain.errors import ConfigError


def plan(config: Any) -> Any:
    return TRLBackend().plan(config)


def test_defaults_are_retrain_s_and_explicit(config: Any) -> None:
    arguments = plan(config(learning_rate=1e-6)).arguments
    expected = {
        "learning_rate": 1e-6,
        "lr_scheduler_type": "constant",
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.98,
        "max_grad_norm": 1.0,
        "temperature": 1.0,
        "beta": 0.0,
        "epsilon": 0.2,
        "epsilon_high": 0.2,
        "loss_type": "dapo",
        "scale_rewards": "none",
        "num_generations": 4,
        "report_to": "none",
    }
    assert {key: arguments[key] for key in expected} == expected
    json.dumps(dict(arguments))


def test_every_argument_is_one_that_trl_takes(config: Any) -> None:
    from trl import GRPOConfig, SFTConfig

    made = config()
    GRPOConfig(**plan(made).arguments)
    algorithm = {"name": "sft", "hyperparameters": {"num_iterations": 3}}
    supervised = RunConfig.model_validate({**made.model_dump(), "algorithm": algorithm})
    assert plan(supervised).entry == "trl.SFTTrainer"
    SFTConfig(**plan(supervised).arguments)


def test_sizes_are_iterations_of_rollouts(config: Any) -> None:
    made = plan(
        config(
            num_iterations=5,
            rollout_batch_size=6,
            n_samples_per_prompt=4,
            global_batch_size=12,
            trl_per_device_train_batch_size=4,
            save_interval=2,
        )
    )
    assert made.sizes == {
        "iterations": 5,
        "rollouts_per_iteration": 24,
        "rollouts_per_optimizer_step": 12,
        "optimizer_steps_per_iteration": 2,
        "optimizer_steps": 10,
        "micro_batch": 4,
        "processes": 1,
    }
    arguments = made.arguments
    assert (arguments["max_steps"], arguments["save_steps"]) == (10, 4)
    assert arguments["gradient_accumulation_steps"] == 3
    assert arguments["steps_per_generation"] == 6


def test_epochs_become_iterations(config: Any) -> None:
    made = plan(config(num_iterations=None, num_epochs=2, rollout_batch_size=3))
    assert made.sizes["iterations"] == 5, "2 epochs x 7 prompts / 3 prompts, rounded up"


@pytest.mark.parametrize(("batch", "micro"), [(64, 8), (12, 6), (7, 7), (13, 1), (1, 1)])
def test_micro_batch_is_the_largest_divisor_up_to_eight(batch: int, micro: int) -> None:
    assert micro_batch_size(batch, None) == micro


def test_micro_batch_that_does_not_divide_is_shown_the_arithmetic() -> None:
    with pytest.raises(ConfigError, match=r"12 = 5 x 2 \+ 2; see global_batch_size\); use one of"):
        micro_batch_size(12, 5)
    with pytest.raises(ConfigError, match="does not divide"):
        micro_batch_size(12, 0)


def test_inner_epochs_multiply_the_optimizer_steps() -> None:
    assert BatchSizes(24, 12, 4, inner_epochs=3).optimizer_steps == 6


@pytest.mark.parametrize("option", [o for o in REFUSED if o != "max_steps"])
def test_options_that_would_undo_ours_are_refused(config: Any, option: str) -> None:
    with pytest.raises(ConfigError, match=rf"trl_{option}: is refused: "):
        plan(config(**{f"trl_{option}": 1}))


def test_options_that_trl_refuses_together_are_named(config: Any) -> None:
    with pytest.raises(ConfigError, match="TRL refuses these trl_ options: "):
        plan(config(trl_log_completions_hub_repo="me/table"))


def test_unknown_option_is_named_with_the_nearest(config: Any) -> None:
    with pytest.raises(ConfigError, match="no option 'optimm'; did you mean 'optim'"):
        plan(config(trl_optimm="adamw_torch"))


def test_option_of_the_wrong_type_is_refused(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"trl_adam_epsilon: 'small' is not what TRL takes"):
        plan(config(trl_adam_epsilon="small"))


def test_all_wrong_options_are_named_at_once(config: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(config(trl_optimm="x", trl_scale_rewards="group"))
    assert "optimm" in str(caught.value)
    assert "scale_rewards" in str(caught.value)


def test_trl_option_beats_our_default(config: Any) -> None:
    made = config(trl_optim="sgd", trl_learning_rate=0.5, learning_rate=0.5)
    assert plan(made).arguments["optim"] == "sgd"
    assert plan(made).arguments["learning_rate"] == 0.5


@pytest.mark.parametrize(
    ("hyper", "key"),
    [
        ({"sections": {"rendering": {"history": "template"}}}, "rendering.history"),
        ({"kl_coef": 0.1, "kl_estimator": "k1"}, "algorithm.hyperparameters.kl_estimator"),
        (
            {"name": "dr_grpo", "loss_aggregation": "token"},
            "algorithm.hyperparameters.loss_aggregation",
        ),
    ],
)
def test_what_trl_cannot_honour_is_a_problem(config: Any, hyper: Any, key: str) -> None:
    made = plan(config(**hyper))
    assert [problem.key for problem in made.errors] == [key]
    with pytest.raises(ConfigError, match=key):
        made.require_runnable()


def test_model_folder_faults_are_named(config: Any, tmp_path: Path) -> None:
    def fault(folder: Path) -> str:
        model = {"name_or_path": str(folder)}
        (problem,) = plan(config(sections={"model": model})).errors
        return str(problem)

    folder = tmp_path / "model"
    assert "is no folder" in fault(folder)
    folder.mkdir()
    assert "has no config.json" in fault(folder)
    (folder / "config.json").write_text("{}")
    assert "holds no weights" in fault(folder)


def test_sampling_from_a_cut_distribution_warns(config: Any) -> None:
    warnings = [
        p.key
        for p in plan(config(top_p=0.9, top_k=5, save_interval=1)).problems
        if p.severity is Severity.WARNING
    ]
    assert warnings == ["algorithm.hyperparameters.top_p", "algorithm.hyperparameters.top_k"]


def test_planning_writes_nothing(config: Any, tmp_path: Path) -> None:
    plan(config())
    assert list(tmp_path.iterdir()) == []
