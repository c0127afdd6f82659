"""The example configurations of the first sketch of this project load unchanged."""

from collections.abc import Callable
from pathlib import Path

import pytest

from retrain.config import BRIDGE_OPTIONS, load_config
from retrain.errors import ConfigError

BASIC = """\
algorithm:
  name: "grpo"
  backend: "slime"
  hyperparameters:
    # Standard retrain parameters work unchanged
    learning_rate: 1e-5
    num_iterations: 20
    rollout_batch_size: 4
    global_batch_size: 16
"""

ADVANCED = """\
algorithm:
  name: "grpo"
  backend: "slime"
  hyperparameters:
    # Core RL parameters
    learning_rate: 1e-5
    rollout_batch_size: 4

    # Distributed configuration
    slime_actor_num_nodes: 2           # Number of training nodes
    slime_actor_num_gpus_per_node: 4   # GPUs per training node
    slime_rollout_num_gpus: 8          # Total GPUs for rollout generation
    slime_colocate: false              # Whether to colocate training/inference

    # Generation parameters
    slime_rollout_temperature: 0.8
    slime_rollout_top_p: 0.9
    slime_rollout_max_response_len: 512

    # Model configuration
    slime_bf16: true                   # Use bfloat16 precision
    slime_gradient_checkpointing: true # Enable gradient checkpointing

    # System optimization
    slime_sglang_server_concurrency: 128
    slime_save_interval: 10            # Model checkpoint interval

    # Bridge-specific options
    slime_use_retrain_environment: true  # Use retrain Environment via bridge
    slime_use_retrain_rewards: true      # Use retrain RewardCalculator via bridge
"""
LENGTH = "algorithm.hyperparameters.num_iterations=20"


def test_the_basic_example_loads(write: Callable[..., Path]) -> None:
    algorithm = load_config(write(BASIC)).algorithm
    assert algorithm.backend == "slime"
    assert algorithm.hyperparameters.learning_rate == 1e-5
    assert algorithm.hyperparameters.num_iterations == 20
    assert algorithm.hyperparameters.global_batch_size == 16


def test_the_advanced_example_loads_once_its_length_is_given(write: Callable[..., Path]) -> None:
    given = load_config(write(ADVANCED), [LENGTH]).algorithm.hyperparameters
    options = given.prefixed("slime")
    assert len(options) == 13
    assert options["actor_num_nodes"] == 2
    assert options["colocate"] is False
    assert options["sglang_server_concurrency"] == 128
    own = {f"slime_{name}" for name in options} & BRIDGE_OPTIONS.keys()
    assert own == BRIDGE_OPTIONS.keys() - {"slime_train_async"}
    assert given.prefixed("trl") == {}


def test_framework_options_of_the_same_meaning_set_our_own_keys(
    write: Callable[..., Path],
) -> None:
    path = write(ADVANCED)
    on_slime = load_config(path, [LENGTH]).algorithm.hyperparameters
    assert (on_slime.temperature, on_slime.top_p, on_slime.save_interval) == (0.8, 0.9, 10)
    on_trl = load_config(path, [LENGTH], backend="trl").algorithm.hyperparameters
    assert (on_trl.temperature, on_trl.top_p, on_trl.save_interval) == (1.0, 1.0, None)


def test_the_advanced_example_alone_is_told_what_it_lacks(write: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="needs exactly one of num_iterations and num_epochs"):
        load_config(write(ADVANCED))


def test_an_example_without_the_other_sections_is_told_each_of_them(
    write: Callable[..., Path],
) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(write(BASIC, base=""))
    for section in ("experiment_name", "model", "environment", "prompt_source"):
        assert f"{section}: is missing; it is required" in str(raised.value)
