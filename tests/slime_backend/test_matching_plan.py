"""What `examples/matching` becomes on slime: on a cluster and on a laptop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plan_configs import model_folder

from backends.slime.planning import make_plan
from retrain.config import load_config

EXAMPLE = Path(__file__).parents[2] / "examples" / "matching"


def test_the_cluster_run_is_planned_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    model = model_folder(tmp_path / "model", "qwen2.5-7B")
    plan = make_plan(load_config(EXAMPLE / "slime.yaml", [f"model.name_or_path={model}"]))
    assert plan.problems == ()
    assert plan.sizes["gpus"] == 8
    assert plan.sizes["longest_row_tokens"] <= plan.sizes["max_tokens_per_gpu"]


def test_the_laptop_run_is_config_yaml_but_for_the_backend() -> None:
    def settings(name: str) -> dict[str, Any]:
        text = json.dumps(load_config(EXAMPLE / name).model_dump(mode="json"))
        document = json.loads(text.replace("examples.matching.", "matching."))
        for key in ("output_dir", "slime_laptop"):
            document.pop(key)
        for section in (document, *document["stages"]):
            algorithm = section.get("algorithm", {})
            algorithm.pop("backend", None)
            hyper = algorithm.get("hyperparameters", {})
            for option in [name for name in hyper if name.startswith("trl_")]:
                del hyper[option]
        return document

    assert settings("slime_laptop.yaml") == settings("config.yaml")
