from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_workspace import TASKS, Workspace, write_rows
from typer.testing import CliRunner

from retrain.cli.main import app

Damage = Callable[[Workspace], None]


def unknown_key(workspace: Workspace) -> None:
    workspace.hyper["learning_rat"] = 1e-5


def wrong_type(workspace: Workspace) -> None:
    workspace.hyper["learning_rate"] = "fast"


def unknown_environment(workspace: Workspace) -> None:
    workspace.config["environment"]["type"] = "calculater"


def unknown_environment_setting(workspace: Workspace) -> None:
    workspace.config["environment"]["env_specific_config"] = {"max_turn": 3}


def unknown_reward(workspace: Workspace) -> None:
    workspace.config["reward_setup"] = {"rollout_reward_configs": {"exact_mach": {}}}


def unknown_framework_option(workspace: Workspace) -> None:
    workspace.hyper["trl_bf61"] = True


def no_tasks_file(workspace: Workspace) -> None:
    workspace.tasks.unlink()


def no_held_out_file(workspace: Workspace) -> None:
    source = {"type": "jsonl", "source_config": {"path": "held.jsonl"}}
    workspace.config["evaluation"] = {"prompt_source": source}


def malformed_line(workspace: Workspace) -> None:
    workspace.tasks.write_text(json.dumps(TASKS[0]) + '\n{"id": "b", "prompt":\n')


def repeated_id(workspace: Workspace) -> None:
    write_rows(workspace.tasks, [TASKS[0], TASKS[1], TASKS[0]])


def no_model_folder(workspace: Workspace) -> None:
    workspace.config["model"]["name_or_path"] = "./nowhere"


def no_weights(workspace: Workspace) -> None:
    (workspace.own_model() / "model.safetensors").unlink()


def no_model_config(workspace: Workspace) -> None:
    (workspace.own_model() / "config.json").unlink()


def no_chat_template(workspace: Workspace) -> None:
    (workspace.own_model() / "chat_template.jinja").unlink()


def broken_chat_template(workspace: Workspace) -> None:
    (workspace.own_model() / "chat_template.jinja").write_text("{% for message in %}")


def damaged_tokenizer(workspace: Workspace) -> None:
    (workspace.own_model() / "tokenizer.json").write_text('{"version": "1.0", "model": 3}')


def no_pad_and_no_eos_token(workspace: Workspace) -> None:
    path = workspace.own_model() / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "pad_token": None, "eos_token": None}))


def sizes_that_do_not_divide(workspace: Workspace) -> None:
    workspace.hyper["global_batch_size"] = 3


def micro_batch_that_does_not_divide(workspace: Workspace) -> None:
    workspace.hyper["trl_per_device_train_batch_size"] = 3


CASES: dict[str, tuple[Damage, list[str]]] = {
    "unknown key": (unknown_key, ["c.yaml", "learning_rat", "learning_rate"]),
    "wrong type": (wrong_type, ["c.yaml", "learning_rate", "number"]),
    "unknown environment": (unknown_environment, ["calculater", "'calculator'"]),
    "unknown environment setting": (
        unknown_environment_setting,
        ["env_specific_config.max_turn", "max_turns"],
    ),
    "unknown reward": (unknown_reward, ["exact_mach", "exact_match"]),
    "unknown framework option": (unknown_framework_option, ["trl_bf61", "'bf16'"]),
    "missing tasks file": (no_tasks_file, ["tasks.jsonl: no such file"]),
    "missing held-out file": (no_held_out_file, ["held.jsonl: no such file"]),
    "malformed line": (malformed_line, ["tasks.jsonl:2: is not JSON", "column"]),
    "repeated id": (repeated_id, ["'sum' stands twice"]),
    "missing model folder": (no_model_folder, ["model.name_or_path", "nowhere"]),
    "model without weights": (no_weights, ["model.name_or_path", "holds no weights"]),
    "model without config": (no_model_config, ["model.name_or_path", "no config.json"]),
    "no chat template": (no_chat_template, ["the tokenizer has no chat template"]),
    "broken chat template": (broken_chat_template, ["the chat template cannot be read: line 1"]),
    "damaged tokenizer": (damaged_tokenizer, ["model.name_or_path: no tokenizer in"]),
    "neither pad nor eos token": (no_pad_and_no_eos_token, ["pad_token"]),
    "batch that does not divide": (
        sizes_that_do_not_divide,
        ["global_batch_size", "2 x", "use one of 1, 2, 4"],
    ),
    "micro-batch that does not divide": (
        micro_batch_that_does_not_divide,
        ["trl_per_device_train_batch_size", "4 = 3 x 1 + 1", "1, 2, 4"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "plan"])
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_clear_error(workspace: Workspace, case: str, command: str) -> None:
    damage, words = CASES[case]
    damage(workspace)
    result = workspace.run(command)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    for word in words:
        assert word in result.stderr
    assert not workspace.output.exists(), "bad input must leave no run folder behind"
    assert command == "plan" or result.stdout == ""


@pytest.mark.parametrize("command", ["train", "plan", "rollout", "eval"])
def test_a_missing_configuration_is_named(command: str) -> None:
    result = CliRunner().invoke(app, [command, "nowhere.yaml"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: nowhere.yaml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "seed"], "key=value"),
        (["--set", "sed=1"], "did you mean 'seed'"),
        (["--backend", "trll"], "did you mean 'trl'"),
    ],
)
def test_a_wrong_option_is_named(workspace: Workspace, arguments: list[str], words: str) -> None:
    result = workspace.run("plan", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize("place", ["a file in the way", "a read-only folder"])
def test_an_output_folder_that_cannot_be_written_is_named(workspace: Workspace, place: str) -> None:
    if place == "a file in the way":
        (workspace.folder / "file").touch()
        folder = workspace.folder / "file" / "run"
    else:
        folder = Path("/proc/self/run")
        if not os.path.isdir("/proc/self"):
            pytest.skip("needs a folder in which nobody may write")
    result = workspace.run("train", "--set", f"output_dir={folder}")
    assert result.exit_code == 2
    assert f"error: {folder} cannot be the output folder" in result.stderr


def test_a_folder_that_holds_a_run_is_not_overwritten(workspace: Workspace) -> None:
    workspace.output.mkdir()
    (workspace.output / "metrics.jsonl").write_text("{}\n")
    result = workspace.run("train")
    assert result.exit_code == 2
    assert "already holds a run" in result.stderr and "--resume" in result.stderr
    assert (workspace.output / "metrics.jsonl").read_text() == "{}\n"


def test_a_folder_without_a_run_cannot_be_resumed(workspace: Workspace) -> None:
    result = workspace.run("train", "--resume")
    assert result.exit_code == 2
    assert "holds no run to resume" in result.stderr


def test_bad_input_of_a_later_stage_shows_before_the_first_one_trains(
    workspace: Workspace,
) -> None:
    missing = {"source_config": {"path": "later.jsonl"}}
    workspace.config["stages"] = [{"name": "first"}, {"name": "second", "prompt_source": missing}]
    result = workspace.run("train")
    assert result.exit_code == 2
    assert "later.jsonl: no such file" in result.stderr
    assert not workspace.output.exists()
