"""`retrain rollout --tape` and `--replay`: what is recorded, and where a change departs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from cli_workspace import Workspace

from retrain.rollout.tape import Tape

pytestmark = pytest.mark.slow


@pytest.fixture
def recorded(workspace: Workspace) -> Workspace:
    workspace.config["environment"] = {"type": "cli_environments:Wordy"}
    workspace.hyper["max_tokens_per_turn"] = 8
    result = workspace.run("rollout", "-n", "3", "--samples", "2", "--tape", "a.tape", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(json.loads(result.stdout)["episodes"]) == 6
    return workspace


def replay(workspace: Workspace, *arguments: str) -> Any:
    return workspace.run("rollout", "--replay", "a.tape", *arguments)


def test_a_replay_into_the_same_code_is_identical(recorded: Workspace) -> None:
    result = replay(recorded)
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.fullmatch(r"6 episodes, 6 turns, \d+ tokens: identical\n", result.stdout)


def test_a_replay_needs_no_weights(recorded: Workspace) -> None:
    model = recorded.own_model()
    (model / "model.safetensors").unlink()
    result = replay(recorded, "--set", f"model.name_or_path={model}")
    assert result.exit_code == 0
    assert result.stdout.endswith(": identical\n")
    assert f"warning: model.name_or_path: '{recorded.config['model']['name_or_path']}'" not in (
        result.stdout
    )
    assert "model.name_or_path" in result.stderr


def test_the_header_says_what_recorded_it(recorded: Workspace) -> None:
    with Tape(recorded.folder / "a.tape") as tape:
        header = tape.header
        groups = [recorded_group.group for recorded_group in tape.groups()]
    assert header.engine == "transformers"
    assert header.config["environment"]["type"] == "cli_environments:Wordy"
    assert {"python", "retrain", "transformers", "tokenizers", "torch"} <= set(header.versions)
    assert sorted(group.index for group in groups) == [0, 1, 2]
    assert {len(group.trajectories) for group in groups} == {2}


def test_a_changed_reward_departs_and_is_named(recorded: Workspace) -> None:
    recorded.config["environment"] = {"type": "cli_environments:Silent"}
    result = replay(recorded)
    assert result.exit_code == 1
    assert "warning: environment.type: 'cli_environments:Wordy' on the tape" in result.stderr
    assert re.search(r"task '\w+' visit 0 sample 0.*: reward\n  recorded: \d", result.stdout)
    assert "reward component 'environment'\n" in result.stdout
    assert re.search(r"tokens: \d+ departures in 6 of them\n$", result.stdout)


def test_another_seed_is_said_and_falls_off_the_tape(recorded: Workspace) -> None:
    result = replay(recorded, "--seed", "99")
    assert result.exit_code == 1
    assert "warning: seed: " in result.stderr and "99 now" in result.stderr
    document = json.loads(replay(recorded, "--seed", "99", "--json").stdout)
    assert document["identical"] is False and document["episodes"] == 6
    assert [entry["key"] for entry in document["settings"]] == ["seed"]
    errors = [d["played"] for d in document["departures"] if d["what"] == "error"]
    assert len(errors) == 6 and all("the tape holds no answer" in error for error in errors)


def test_another_template_shows_both_sides_decoded(recorded: Workspace) -> None:
    model = recorded.own_model()
    path = model / "chat_template.jinja"
    template = path.read_text(encoding="utf-8")
    assert "user" in template
    path.write_text("{{- '7' }}" + template, encoding="utf-8")
    result = replay(recorded)
    assert result.exit_code == 1
    found = re.search(r": prompt, token 0\n  recorded: (.*)\n  played:   (.*)\n", result.stdout)
    assert found is not None
    assert found[2] == f"{found[1][0]}7{found[1][1:]}"


def test_what_a_tape_decides_cannot_be_given(recorded: Workspace) -> None:
    result = replay(recorded, "-n", "2", "--engine", "transformers")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "-n, --engine: a replay takes tasks, episodes and answers from the tape" in result.stderr


def test_a_tape_that_cannot_be_written_is_said_before_anything_is_played(
    workspace: Workspace,
) -> None:
    result = workspace.run("rollout", "--tape", "no/such/folder/a.tape")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a.tape: cannot be written" in result.stderr


def test_no_tape_is_bad_input(workspace: Workspace) -> None:
    result = workspace.run("rollout", "--replay", "none.tape")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "none.tape: is no tape" in result.stderr
