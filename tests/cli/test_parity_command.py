"""`retrain parity`: what it prints, and how it exits."""

from __future__ import annotations

import json
import re

import pytest
from cli_workspace import Workspace

pytestmark = pytest.mark.slow


@pytest.fixture
def taped(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    workspace.config["environment"] = {"type": "cli_environments:Wordy"}
    workspace.hyper["max_tokens_per_turn"] = 8
    recorded = workspace.run("rollout", "-n", "2", "--samples", "2", "--tape", "a.tape", "--json")
    assert recorded.exit_code == 0
    return workspace


def test_a_tape_is_the_same_on_every_backend(taped: Workspace) -> None:
    result = taped.run("parity", "--tape", "a.tape")
    assert result.exit_code == 0, result.output
    hashes = re.findall(r"^(?:tape|slime|torch|trl) .* ([0-9a-f]{12})$", result.stdout, re.M)
    assert len(hashes) == 4 and len({*hashes}) == 1
    assert "slime: read from port of slime" in result.stdout
    assert "trl: read from the batch of a GRPOTrainer" in result.stdout
    assert re.search(r"loss weights of slime and trl: equal on \d+ tokens\n", result.stdout)
    last = result.stdout.splitlines()[-1]
    assert re.fullmatch(r"4 samples, \d+ tokens: identical on the tape, slime, torch and trl", last)
    assert not (taped.folder / "run").exists()


def test_a_new_recording_is_compared_without_a_tape(taped: Workspace) -> None:
    result = taped.run("parity", "-n", "3", "--backend", "slime", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["equal"] and document["tape"]["rows"] == 6
    assert [entry["backend"] for entry in document["backends"]] == ["slime"]
    assert len(document["samples"]) == 6
    for sample in document["samples"]:
        assert sample["sha256"]["tape"] == sample["sha256"]["slime"]
    assert "rollout_batch_size is 3 (the tape's), not 2" in result.stderr


def test_a_changed_reward_is_shown_and_exits_with_1(taped: Workspace) -> None:
    taped.config["environment"]["type"] = "cli_environments:Silent"
    result = taped.run("parity", "--tape", "a.tape", "--backend", "slime")
    assert result.exit_code == 1
    assert "warning: environment.type: 'cli_environments:Wordy' on the tape" in result.stderr
    words = r"slime: 4 x reward, 4 x reward\w*, \d x advantage; the first one:\n"
    assert re.search(words, result.stdout)
    assert re.search(r"slime, sample 0: reward\n  tape:  \d.*\n  slime: 0.5\n", result.stdout)


def test_what_chooses_groups_has_no_part_in_it(taped: Workspace) -> None:
    taped.config["rollout"] = taped.config.get("rollout", {}) | {
        "over_sampling_factor": 2.0,
        "filter": "check_reward_nonzero_std",
        "asynchronous": True,
    }
    result = taped.run("parity", "--tape", "a.tape", "--backend", "slime")
    assert result.exit_code == 0, result.output
    left_out = "rollout.over_sampling_factor, rollout.filter, rollout.asynchronous: left out"
    assert left_out in result.stderr


def test_a_named_backend_that_is_not_installed_exits_with_1(
    taped: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.trl.backend.find_spec", lambda name: None)
    found = taped.run("parity", "--tape", "a.tape", "--backend", "slime", "--backend", "trl")
    assert found.exit_code == 1
    assert re.search(r"^trl +absent *$", found.stdout, re.M)
    assert "trl: not compared: " in found.stdout and "pip install" in found.stdout
    assert found.stdout.endswith("identical on the tape and slime; trl absent\n")


def test_a_backend_that_refuses_is_named(taped: Workspace) -> None:
    result = taped.run(
        "parity", "--tape", "a.tape", "--backend", "trl", "--set", "rendering.history=template"
    )
    assert result.exit_code == 1
    assert re.search(r"^trl +refused *$", result.stdout, re.M)
    assert "trl: refused: rendering.history: template begins a new segment" in result.stdout
    assert "use keep, or algorithm.backend: torch or slime" in result.stdout
    assert result.stdout.endswith("tokens: nothing could be compared\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--backend", "tlr"], "unknown backend 'tlr'"),
        (["--tape", "none.tape"], "none.tape: is no tape"),
        (["--tape", "a.tape", "-n", "2"], "--tape: holds tasks and answers"),
    ],
)
def test_what_cannot_be_compared_is_bad_input(
    workspace: Workspace, arguments: list[str], words: str
) -> None:
    result = workspace.run("parity", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
