"""How a configuration reaches the functions that slime loads."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from backends.slime.context import context_of
from backends.slime.handover import ENVIRONMENT_VARIABLE, handover_document, read_handover
from retrain.config import dump_config, load_config
from retrain.errors import ConfigError

CONFIG = """
experiment_name: handed
environment: {type: calculator, env_specific_config: {api_key: sk-aaaaaaaaaaaaaaaaaaaaaaaa}}
model: {name_or_path: ./model}
prompt_source: {type: jsonl, source_config: {path: tasks.jsonl}}
algorithm:
  name: rloo
  backend: slime
  hyperparameters: {num_iterations: 2, learning_rate: 3e-4, slime_colocate: true}
"""


@pytest.fixture
def config(tmp_path: Path) -> Any:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return load_config(path)


def test_configuration_comes_back_as_it_was(config: Any, tmp_path: Path) -> None:
    document = handover_document(config, tmp_path / "run")
    text = json.dumps(document)
    assert "sk-aaaa" not in text, "no credential is handed over"
    back = read_handover(Namespace(hf_checkpoint="model", **json.loads(text)))
    assert back.run_dir == tmp_path / "run"
    assert back.config.base_dir == tmp_path
    assert dump_config(back.config) == dump_config(config)
    assert not back.built_in


def test_bare_arguments_are_answered_by_the_file_that_the_environment_names(
    config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "slime.yaml"
    path.write_text(json.dumps(handover_document(config, tmp_path / "run")))
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(path))
    assert read_handover(None).config.experiment_name == "handed"
    assert read_handover(None).run_dir == tmp_path / "run"
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "config.yaml"))
    assert read_handover(Namespace()).config.experiment_name == "handed"
    assert read_handover(Namespace()).run_dir is None


def test_only_bare_arguments_mean_the_built_in_run() -> None:
    assert read_handover(None).built_in
    assert read_handover(Namespace(rollout_seed=7)).built_in
    with pytest.raises(ConfigError, match=r"hold no retrain_config: pass --custom-config-path"):
        read_handover(Namespace(hf_checkpoint="model"))


def test_what_does_not_fit_is_named() -> None:
    wrong = {"experiment_name": "x", "algorithm": {"name": "grpo", "hyperparamters": {}}}
    with pytest.raises(ConfigError, match=r"--custom-config-path") as raised:
        read_handover(Namespace(retrain_config=json.dumps(wrong)))
    assert "hyperparameters" in str(raised.value)
    for unreadable in ("x", "[1]", wrong, 5):
        with pytest.raises(ConfigError, match="must be a configuration as JSON text, got"):
            read_handover(Namespace(retrain_config=unreadable))


def test_slimes_yaml_reader_changes_no_value(tmp_path: Path) -> None:
    """slime loads the file with PyYAML, which takes 1e-05 for a text and breaks an emoji."""
    yaml = pytest.importorskip("yaml", reason="slime's YAML reader")
    path = tmp_path / "config.yaml"
    path.write_text(
        CONFIG.replace("3e-4", "1e-5").replace("api_key: ", "tolerance: 1e-9, sign: 😀, k: ")
    )
    config = load_config(path)
    text = json.dumps(handover_document(config, tmp_path / "run"), indent=2)
    back = read_handover(Namespace(**yaml.safe_load(text)))
    assert dump_config(back.config) == dump_config(config)
    assert back.config.algorithm.hyperparameters.learning_rate == 1e-5
    settings = back.config.environment.env_specific_config
    assert (settings["tolerance"], settings["sign"]) == (1e-9, "😀")


def test_bridges_are_made_once_per_configuration(slime_config: Any, slime_args: Any) -> None:
    config = slime_config()
    args = slime_args(config)
    assert context_of(args) is context_of(args) is context_of(slime_args(config))
    assert context_of(slime_args(slime_config(learning_rate=1e-4))) is not context_of(args)
