"""Configurations whose plans are on record, and a model folder for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plan_models import MODELS

from retrain.config import RunConfig

Make = dict[str, Any]

COLOCATED: Make = {
    "model": "qwen3-4B",
    "evaluation": True,
    "hyper": {
        "num_iterations": 20,
        "rollout_batch_size": 16,
        "n_samples_per_prompt": 8,
        "global_batch_size": 64,
        "kl_coef": 0.01,
        "lr_schedule": "cosine",
        "warmup_steps": 4,
        "clip_eps_high": 0.28,
        "max_prompt_len": 1024,
        "max_response_len": 8192,
        "save_interval": 5,
        "eval_interval": 10,
        "slime_actor_num_gpus_per_node": 8,
        "slime_colocate": True,
        "slime_rollout_num_gpus_per_engine": 2,
        "slime_tensor_model_parallel_size": 2,
        "slime_sglang_mem_fraction_static": 0.8,
    },
}

ASYNCHRONOUS: Make = {
    "model": "qwen2.5-7B",
    "rollout": {"owner": "slime", "concurrency": 100},
    "hyper": {
        "num_epochs": 2,
        "rollout_batch_size": 4,
        "n_samples_per_prompt": 4,
        "importance_correction": "tis",
        "loss_aggregation": "sequence",
        "max_response_len": 2048,
        "save_interval": 2,
        "slime_train_async": True,
        "slime_actor_num_gpus_per_node": 4,
        "slime_rollout_num_gpus": 4,
        "slime_num_gpus_per_node": 8,
        "slime_over_sampling_batch_size": 8,
        "slime_partial_rollout": True,
        "slime_dynamic_sampling_filter_path": "backends.slime.plugin.dynamic_filter",
        "slime_gradient_checkpointing": False,
    },
}

SFT: Make = {
    "model": "qwen3-0.6B",
    "name": "sft",
    "hyper": {
        "num_iterations": 50,
        "global_batch_size": 16,
        "learning_rate": 1e-5,
        "lr_schedule": "linear",
        "max_response_len": 512,
        "save_interval": 25,
        "slime_actor_num_gpus_per_node": 2,
    },
}

LAPTOP: Make = {
    "model": "qwen3-0.6B",
    "slime_laptop": True,
    "hyper": {
        "num_iterations": 3,
        "rollout_batch_size": 4,
        "n_samples_per_prompt": 4,
        "learning_rate": 1e-4,
        "max_response_len": 64,
        "save_interval": 1,
    },
}

MULTI_NODE = Path(__file__).parents[2] / "examples" / "multi_node" / "config.yaml"


def model_folder(folder: Path, name: str, change: Mapping[str, Any] | None = None) -> Path:
    """A folder with a published model's config.json and no numbers in its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**MODELS[name], **(change or {})}))
    (folder / "model.safetensors").touch()
    return folder


def make_config(folder: Path, make: Make, **sections: Any) -> RunConfig:
    """A run over seven prompts whose model lies in `folder`."""
    prompts = {"type": "list", "source_config": {"items": [f"task {n}" for n in range(7)]}}
    checkouts = {"slime": str(folder / "slime"), "megatron": str(folder / "megatron")}
    content = {
        "experiment_name": "planned",
        "seed": 7,
        "output_dir": str(folder / "run"),
        "model": {"name_or_path": str(model_folder(folder / "model", make["model"]))},
        "environment": {"type": "calculator"},
        "prompt_source": prompts,
        "rollout": make.get("rollout", {}),
        "evaluation": {"prompt_source": prompts} if make.get("evaluation") else None,
        "slime_laptop": checkouts if make.get("slime_laptop") else None,
        "algorithm": {
            "name": make.get("name", "grpo"),
            "backend": "slime",
            "hyperparameters": make["hyper"],
        },
    }
    return RunConfig.model_validate({**content, **sections})
