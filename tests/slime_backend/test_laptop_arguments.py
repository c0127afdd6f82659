from __future__ import annotations

from pathlib import Path

import pytest
from plan_configs import LAPTOP, SFT, make_config

from backends.slime.backend import SlimeBackend
from backends.slime.flags import known_flags
from backends.slime.laptop.arguments import laptop_arguments, launch_arguments
from retrain.errors import ConfigError


def test_every_option_is_one_of_slimes(tmp_path: Path) -> None:
    arguments = laptop_arguments(make_config(tmp_path, LAPTOP))
    assert set(arguments) <= set(known_flags())


def test_they_beat_what_a_configuration_sets_for_a_cluster(tmp_path: Path) -> None:
    hyper = {**LAPTOP["hyper"], "slime_transformer_impl": "transformer_engine"}
    plan = SlimeBackend().plan(make_config(tmp_path, {**LAPTOP, "hyper": hyper}))
    assert plan.arguments["transformer_impl"] == "local"
    assert "attention_backend" not in plan.arguments and "colocate" not in plan.arguments


def test_a_vocabulary_is_not_padded(tmp_path: Path) -> None:
    plan = SlimeBackend().plan(make_config(tmp_path, LAPTOP))
    assert plan.arguments["make_vocab_size_divisible_by"] == 1


def test_one_process_trains(tmp_path: Path) -> None:
    plan = SlimeBackend().plan(make_config(tmp_path, {**SFT, "slime_laptop": True}))
    assert plan.sizes["training_gpus"] == 1
    assert plan.arguments["distributed_backend"] == "gloo"


def test_a_model_whose_layers_need_a_gpu_is_refused(tmp_path: Path) -> None:
    config = make_config(tmp_path, {**LAPTOP, "model": "qwen3-30B-A3B"})
    with pytest.raises(ConfigError, match="slime_laptop: a qwen3_moe model needs TransformerEng"):
        laptop_arguments(config)


def test_the_engine_is_named_where_something_is_generated(tmp_path: Path) -> None:
    words = launch_arguments(tmp_path, 4567)
    assert words[words.index("--rollout-external-engine-addrs") + 1] == "127.0.0.1:4567"
    assert words[words.index("--sglang-router-port") + 1] == "4567"
    assert "--sglang-router-port" not in launch_arguments(tmp_path, None)


def test_new_weights_go_where_the_engine_may_read_them(tmp_path: Path) -> None:
    words = launch_arguments(tmp_path, None)
    assert words[words.index("--update-weight-disk-dir") + 1] == str(tmp_path / "weights")
