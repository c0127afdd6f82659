from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "rope_theta": 10000,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder as far as planning reads it."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(MODEL))
    (folder / "model.safetensors").touch()
    return folder


@pytest.fixture(scope="session")
def document(model: Path) -> Callable[..., dict[str, Any]]:
    """Makes a configuration; keyword arguments are hyperparameters, `sections` the rest."""

    def make(name: str = "grpo", sections: Any = None, **hyper: Any) -> dict[str, Any]:
        given = {"num_iterations": 4, "rollout_batch_size": 4, "n_samples_per_prompt": 4}
        given = given if name != "sft" else {"num_iterations": 4}
        return {
            "experiment_name": "compared",
            "output_dir": str(model.parent / "run"),
            "model": {"name_or_path": str(model)},
            "environment": {"type": "calculator"},
            "prompt_source": {"type": "list", "source_config": {"items": ["one", "two"]}},
            "algorithm": {
                "name": name,
                "backend": "trl",
                "hyperparameters": {**given, **hyper},
            },
            **(sections or {}),
        }

    return make


@pytest.fixture(scope="session")
def make_config(document: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """Like `document`, resolved."""
    from retrain.config import RunConfig

    def make(*words: Any, **hyper: Any) -> RunConfig:
        return RunConfig.model_validate(document(*words, **hyper))

    return make
