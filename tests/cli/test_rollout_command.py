from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from cli_workspace import Workspace
from terminals import run_on_terminal

pytestmark = pytest.mark.slow


def test_episodes_are_shown_and_summed_up(workspace: Workspace) -> None:
    result = workspace.run("rollout", "-n", "2", "--samples", "2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    assert len(re.findall(r"^== task \w+ visit 0 sample [01]  status", result.stdout, re.M)) == 4
    assert len(re.findall(r"reward [-+.\d]+ \(environment [-+.\d]+\)", result.stdout)) == 4
    assert result.stdout.count("advantage") == 4
    last = result.stdout.splitlines()[-1]
    assert re.fullmatch(
        r"4 episodes, reward \+\d\.\d{3}, (success \d\.\d\d, )?0 failed, \d truncated, "
        r"[\d,]+ tokens in [\d.]+ s, [\d,]+ tokens/s",
        last,
    )


def test_the_same_seed_plays_the_same_episodes(workspace: Workspace) -> None:
    def tokens(*options: str) -> list[list[int]]:
        document = json.loads(workspace.run("rollout", "-n", "3", "--json", *options).stdout)
        return [episode["segments"][0]["response_ids"] for episode in document["episodes"]]

    first = tokens("--seed", "1")
    assert tokens("--seed", "1") == first
    assert tokens("--set", "seed=1") == first
    assert tokens("--seed", "2") != first


def test_episodes_as_json_hold_masks_and_logprobs(workspace: Workspace) -> None:
    document = json.loads(workspace.run("rollout", "-n", "1", "--samples", "2", "--json").stdout)
    assert document["metrics"]["rollout/episodes"] == 2
    for episode in document["episodes"]:
        (segment,) = episode["segments"]
        assert len(segment["response_ids"]) == len(segment["loss_mask"]) == len(segment["logprobs"])
        assert set(segment["loss_mask"]) == {1} or episode["status"] == "completed"
    advantages = [episode["advantage"] for episode in document["episodes"]]
    assert sum(advantages) == pytest.approx(0.0)


def test_the_weights_of_a_checkpoint_are_played(workspace: Workspace) -> None:
    model = Path(workspace.config["model"]["name_or_path"])
    workspace.config["model"]["name_or_path"] = "./nowhere"
    assert workspace.run("rollout", "-n", "1").exit_code == 2
    assert workspace.run("rollout", "-n", "1", "--checkpoint", str(model)).exit_code == 0
    assert workspace.run("rollout", "-n", "1", "--checkpoint", str(model.parent)).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--checkpoint", "."], "--checkpoint .: holds no config.json"),
        (["--checkpoint", "nowhere"], "--checkpoint nowhere: is no folder; name a run folder"),
        (["--engine", "transfomers"], "unknown engine 'transfomers'"),
        (["--set", "algorithm.name=sft"], "plays no episodes"),
    ],
)
def test_what_cannot_be_played_is_bad_input(
    workspace: Workspace, arguments: list[str], words: str
) -> None:
    if "algorithm.name=sft" in arguments:
        workspace.config["algorithm"]["hyperparameters"] = {"num_iterations": 1}
    result = workspace.run("rollout", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and words in result.stderr


def test_damaged_weights_are_bad_input(workspace: Workspace) -> None:
    weights = workspace.own_model() / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    result = workspace.run("rollout")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be loaded" in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ("RaisesInReset", "environment: reset: RuntimeError: the world is closed"),
        ("RaisesInStep", "environment: step: KeyError: 'no such move'"),
    ],
)
def test_failed_episodes_are_shown_and_counted(
    workspace: Workspace, environment: str, reason: str
) -> None:
    workspace.config["environment"]["type"] = f"cli_environments:{environment}"
    workspace.hyper["max_tokens_per_turn"] = 8
    result = workspace.run("rollout", "-n", "3")
    assert result.exit_code == 1
    assert result.stdout.count(f"error {reason}") == 3
    assert "3 episodes, reward unknown, 3 failed" in result.stdout
    assert f"3 x {reason}" in result.stderr


def test_an_episode_whose_reward_is_no_number_is_counted(workspace: Workspace) -> None:
    name = "cli_environments:not_a_number"
    workspace.config["reward_setup"] = {"rollout_reward_configs": {name: {}}}
    result = workspace.run("rollout", "-n", "2", "--set", "rollout.max_failure_rate=1.0")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("nothing of it is trained on") == 2
    assert "nan" in result.stdout and "⟦" not in result.stdout
    failed = workspace.run("rollout", "-n", "2", "--json")
    assert failed.exit_code == 1
    for episode in json.loads(failed.stdout, parse_constant=pytest.fail)["episodes"]:
        assert (episode["reward"], "not_a_number" in episode["rewards"]) == (None, False)
        assert episode["error"].startswith("reward: reward not_a_number returned nan")


def test_on_a_terminal_trained_tokens_are_coloured(workspace: Workspace) -> None:
    workspace.save()
    command = [sys.executable, "-m", "retrain", "rollout", "c.yaml", "-n", "1"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    done = run_on_terminal(command, folder=workspace.folder, environment=environment)
    assert done.code == 0, done.piped
    assert "\x1b[1;32m" in done.terminal and "⟦" not in done.terminal


def wait_for(path: Path) -> None:
    """Wait until a file is there, however slow the machine is."""
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.05)


def test_ctrl_c_ends_a_rollout_without_a_traceback(workspace: Workspace) -> None:
    workspace.config["environment"]["type"] = "cli_environments:Endless"
    process = workspace.start("rollout")
    try:
        wait_for(workspace.folder / "begun")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


def test_a_checkpoint_with_another_vocabulary_is_named(workspace: Workspace) -> None:
    model = workspace.folder / "other"
    shutil.copytree(workspace.config["model"]["name_or_path"], model)
    settings = json.loads((model / "tokenizer.json").read_text())
    vocabulary = settings["model"]["vocab"]
    vocabulary["7"], vocabulary["8"] = vocabulary["8"], vocabulary["7"]
    (model / "tokenizer.json").write_text(json.dumps(settings))
    result = workspace.run("rollout", "-n", "1", "--checkpoint", "other")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: --checkpoint {model}: is of another model than" in result.stderr
