"""`retrain parity` over one configuration of each adapter: the same rows on TRL and on slime."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")

from retrain.cli.main import app

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[3] / "examples" / "calculator"
LETTERS = {
    "taskset": {"id": "letters_taskset"},
    "player": {"harness": {"id": "letters_taskset"}, "runtime": {"type": "subprocess"}},
}
CASES: dict[str, dict[str, Any]] = {
    "gymnasium": {
        "environment": {
            "id": "CliffWalking-v1",
            "arguments": {"render_mode": "ansi"},
            "observation": "render",
            "actions": ["up", "right", "down", "left"],
        },
        "source": {"count": 8},
        "texts": ["up", "I go right.", "left", "no idea", "down"],
    },
    "reasoning_gym": {
        "environment": {},
        "source": {"dataset": "letter_counting", "count": 8},
        "texts": ["<answer>1</answer>", "<answer>2</answer>", "I think <answer>3</answer>", "4"],
    },
    "skyrl_gym": {
        "environment": {"id": "gsm8k_multi_turn", "max_turns": 3},
        "items": [
            {"id": "a", "prompt": "1 + 1?", "label": "2"},
            {"id": "b", "prompt": "1 + 2?", "label": "3"},
        ],
        "texts": ["#### 1", "#### 2", "#### 3", "hm"],
    },
    "textarena": {
        "environment": {
            "id": "TicTacToe-v0",
            "players": 2,
            "seat": None,
            "opponent": "adapter_engine:first_free",
        },
        "source": {"count": 8},
        "texts": [f"[{field}]" for field in range(2, 9)],
    },
    "gem": {
        "environment": {"id": "game:GuessTheNumber-v0-easy"},
        "source": {"count": 8},
        "texts": [f"\\boxed{{{number}}}" for number in range(1, 9)],
    },
    "verifiers": {
        "environment": {"env": LETTERS},
        "source": {"env": LETTERS},
        "texts": ["s", "e", "a", "t", "no letter"],
    },
    "openenv": {"environment": {}, "source": {"count": 8}, "texts": list("12345678")},
}
NEEDS = {"skyrl_gym": "skyrl-gym", "reasoning_gym": "reasoning-gym", "gem": "gem-llm"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calculator example's own model, made by its own script."""
    folder = tmp_path_factory.mktemp("adapters") / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["make_model.py", "--output", str(folder)])
        patch.syspath_prepend(str(EXAMPLE))
        runpy.run_path(str(EXAMPLE / "make_model.py"), run_name="__main__")
    for file, key in (
        ("config", "max_position_embeddings"),
        ("tokenizer_config", "model_max_length"),
    ):
        path = folder / f"{file}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: 4096}))
    return folder


@pytest.fixture(
    params=[
        "gymnasium",
        *(pytest.param(name, marks=pytest.mark.soak) for name in CASES if name != "gymnasium"),
    ]
)
def configuration(
    request: pytest.FixtureRequest, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A file with the configuration of one adapter, and the world that it needs."""
    name = request.param
    if find_spec(name) is None:
        pytest.skip(f"needs {name}: pip install {NEEDS.get(name, name)}")
    monkeypatch.chdir(tmp_path)
    if name != "openenv":
        yield written(tmp_path / "config.yaml", name, model, {})
        return
    from openenv_world import APPS, serving

    with serving(APPS["guess"]()) as url:
        yield written(tmp_path / "config.yaml", name, model, {"base_url": url})


def written(path: Path, name: str, model: Path, more: dict[str, Any]) -> Path:
    case = CASES[name]
    source = {"type": "environment", "source_config": case.get("source", {})}
    if "items" in case:
        source = {"type": "list", "source_config": {"items": case["items"]}}
    hyper = {"num_iterations": 1, "rollout_batch_size": 2, "n_samples_per_prompt": 4}
    hyper |= {"max_response_len": 1500, "global_batch_size": 8}
    document = {
        "experiment_name": name,
        "model": {"name_or_path": str(model), "threads": 1},
        "environment": {"type": name, "env_specific_config": case["environment"] | more},
        "prompt_source": source,
        "rollout": {
            "max_turns": 4,
            "engine": {"name": "adapter_engine:build", "texts": case["texts"]},
        },
        "algorithm": {"name": "grpo", "backend": "trl", "hyperparameters": hyper},
    }
    path.write_text(json.dumps(document))
    return path


def samples_of(configuration: Path, slime: str) -> list[dict[str, Any]]:
    command = ["parity", str(configuration), "--backend", "trl", "--backend", "slime", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [entry["backend"] for entry in report["backends"]] == ["trl", "slime"]
    assert slime in str(report["backends"][1])
    samples: list[dict[str, Any]] = report["samples"]
    assert len(samples) == report["tape"]["rows"] == 8
    assert report["tape"]["trained"] > 8
    return samples


def test_samples_are_identical_on_both_backends(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    for sample in samples_of(configuration, "port of slime"):
        assert len(set(sample["sha256"].values())) == 1
        assert sample["sha256"].keys() == {"tape", "trl", "slime"}


@pytest.mark.soak
def test_a_harness_that_forgets_gives_segments_that_slime_trains(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("verifiers.v1", reason="needs verifiers: pip install 'verifiers>=0.4'")
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    player = {**LETTERS["player"], "harness": {"id": "letters_taskset", "forgets": True}}
    env = {**LETTERS, "player": player}
    spell = '<tool_call>\n{"name": "spell", "arguments": {"word": "sea"}}\n</tool_call>'
    case = {"environment": {"env": env}, "source": {"env": env}, "texts": [spell, "s", "e"]}
    monkeypatch.setitem(CASES, "verifiers", case)
    path = written(tmp_path / "config.yaml", "verifiers", model, {"rewrites": True})
    command = ["parity", str(path), "--set", "algorithm.backend=slime", "--backend", "slime"]
    result = CliRunner().invoke(app, [*command, "--json"])

    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["tape"]["rows"] > 8
    assert report["equal"]
    refused = CliRunner().invoke(app, ["parity", str(path), "--backend", "trl", "--json"])
    assert refused.exit_code == 1
    assert "rewrites its history" in json.loads(refused.stdout)["backends"][0]["refused"]


@pytest.mark.slime
def test_samples_are_identical_on_slime_s_own_code(configuration: Path) -> None:
    if not os.environ.get("RETRAIN_SLIME"):
        pytest.skip("set RETRAIN_SLIME to a checkout of slime")
    for sample in samples_of(configuration, "slime's own conversion"):
        assert len(set(sample["sha256"].values())) == 1
