from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_workspace import TASKS, Workspace, write_rows
from terminals import run_on_terminal

from retrain.report.pass_at_k import pass_at_k

pytestmark = pytest.mark.slow

HELD = [{**task, "id": f"held-{task['id']}"} for task in TASKS[:3]]


def hold_out(workspace: Workspace, **settings: Any) -> None:
    write_rows(workspace.folder / "held.jsonl", HELD)
    source = {"type": "jsonl", "source_config": {"path": "held.jsonl"}}
    workspace.config["evaluation"] = {"prompt_source": source, **settings}
    workspace.hyper["max_tokens_per_turn"] = 8


def document(workspace: Workspace, *options: str) -> dict[str, Any]:
    result = workspace.run("eval", "--json", *options)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout, parse_constant=pytest.fail)
    return found


def test_held_out_tasks_are_played_and_summed_up(workspace: Workspace) -> None:
    hold_out(workspace, n_samples_per_prompt=4)
    result = workspace.run("eval")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    lines = result.stdout.splitlines()
    assert lines[0] == "tiny: 4 per task at temperature 1"
    for name in ("reward", "success", "pass@1", "pass@2", "pass@4"):
        assert any(re.match(rf"  {name} +\d\.\d{{3}} ± \d\.\d{{3}}$", line) for line in lines), name
    assert "  3 tasks, 12 episodes, 0 failed, " in result.stdout
    listed = [line.split()[-1] for line in lines[-3:]]
    assert sorted(listed) == sorted(task["id"] for task in HELD)


def test_the_options_win_over_the_section(workspace: Workspace) -> None:
    hold_out(workspace, n_samples_per_prompt=4, temperature=1.0)
    found = document(workspace, "-n", "2", "--samples", "3", "--temperature", "0.5")
    assert (found["samples_per_task"], found["temperature"], found["episodes"]) == (3, 0.5, 6)
    assert {task["task_id"] for task in found["tasks"]} == {task["id"] for task in HELD[:2]}
    assert list(found["pass_at"]) == ["1", "2", "3"]
    assert found["source"] == "evaluation.prompt_source"


def test_every_task_is_in_the_document_the_worst_first(workspace: Workspace) -> None:
    workspace.config["environment"]["type"] = "cli_environments:Even"
    hold_out(workspace, n_samples_per_prompt=4)
    found = document(workspace)
    shares = [task["solved"] / task["attempts"] for task in found["tasks"]]
    assert shares == sorted(shares) and 0.0 < sum(shares) < 3.0
    for task in found["tasks"]:
        expected = {str(k): pass_at_k(task["attempts"], task["solved"], k) for k in (1, 2, 4)}
        assert task["pass_at"] == expected
    assert found["success"]["mean"] == pytest.approx(found["metrics"]["success"])
    assert found["reward"]["mean"] == pytest.approx(found["metrics"]["reward/mean"])


def test_without_held_out_tasks_the_training_ones_are_played_and_that_is_said(
    workspace: Workspace,
) -> None:
    result = workspace.run("eval", "--samples", "1", "--json")
    assert result.exit_code == 0
    assert result.stderr == (
        "there is no evaluation: section; playing the training tasks of prompt_source\n"
    )
    found = json.loads(result.stdout)
    assert {task["task_id"] for task in found["tasks"]} == {task["id"] for task in TASKS}


def test_equal_samples_are_warned_about(workspace: Workspace) -> None:
    hold_out(workspace)
    greedy = ("--temperature", "0", "-n", "1", "--samples")
    assert "warning: at temperature 0" in workspace.run("eval", *greedy, "2").stderr
    assert workspace.run("eval", *greedy, "1").stderr == ""


def test_the_reward_of_a_success_can_be_chosen(workspace: Workspace) -> None:
    workspace.config["environment"]["type"] = "cli_environments:Silent"
    hold_out(workspace)
    assert document(workspace)["success"]["mean"] == 0.0
    assert document(workspace, "--success-reward", "0.5")["success"]["mean"] == 1.0


def test_a_run_folder_plays_what_its_last_evaluation_played(workspace: Workspace) -> None:
    hold_out(workspace, n_samples_per_prompt=2)
    workspace.config["environment"]["type"] = "cli_environments:Wordy"
    workspace.hyper["learning_rate"] = 0.01
    assert workspace.run("train").exit_code == 0
    rows = [json.loads(line) for line in (workspace.output / "metrics.jsonl").open()]
    last = [row for row in rows if "eval/reward/mean" in row][-1]
    assert {"eval/pass@1", "eval/pass@2"} <= last.keys()
    found = document(workspace, "--checkpoint", "run")
    assert found["reward"]["mean"] == pytest.approx(last["eval/reward/mean"], abs=1e-9)
    untrained = document(workspace)
    assert untrained["reward"]["mean"] != pytest.approx(last["eval/reward/mean"], abs=1e-9)


def copied(workspace: Workspace) -> Path:
    model = workspace.folder / "other"
    shutil.copytree(workspace.config["model"]["name_or_path"], model)
    return model


def test_a_checkpoint_with_a_larger_vocabulary_is_named(workspace: Workspace) -> None:
    from transformers import AutoTokenizer

    model = copied(workspace)
    tokenizer = AutoTokenizer.from_pretrained(model)
    was = len(tokenizer)
    tokenizer.add_tokens(["another"])
    tokenizer.save_pretrained(model)
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**settings, "vocab_size": was + 1}))
    result = workspace.run("eval", "--checkpoint", "other")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: --checkpoint {model}: is of another model" in result.stderr
    assert f"its vocabulary has {was + 1} tokens, the model's {was}" in result.stderr


def test_a_checkpoint_with_other_ids_is_named(workspace: Workspace) -> None:
    model = copied(workspace)
    path = model / "tokenizer.json"
    settings = json.loads(path.read_text())
    vocabulary = settings["model"]["vocab"]
    vocabulary["7"], vocabulary["8"] = vocabulary["8"], vocabulary["7"]
    path.write_text(json.dumps(settings))
    result = workspace.run("eval", "--checkpoint", "other")
    assert result.exit_code == 2
    assert f"error: --checkpoint {model}: is of another model" in result.stderr
    assert "token '7' has id" in result.stderr or "token '8' has id" in result.stderr


def test_weights_that_know_fewer_ids_than_their_tokenizer_are_named(workspace: Workspace) -> None:
    model = copied(workspace)
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**settings, "vocab_size": 7}))
    result = workspace.run("eval", "--checkpoint", "other")
    assert result.exit_code == 2
    assert "the weights know 7 token ids" in result.stderr


def test_a_model_that_is_not_here_is_not_compared_and_that_is_said(workspace: Workspace) -> None:
    hold_out(workspace)
    copied(workspace)
    workspace.config["model"]["name_or_path"] = "./nowhere"
    result = workspace.run("eval", "--checkpoint", "other", "-n", "1")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: the checkpoint is not compared with")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([], "--checkpoint other: holds no config.json"),
        (["adapter_config.json"], "holds an adapter without its base"),
    ],
)
def test_a_folder_without_weights_is_named(
    workspace: Workspace, files: list[str], words: str
) -> None:
    (workspace.folder / "other").mkdir()
    for name in files:
        (workspace.folder / "other" / name).touch()
    result = workspace.run("eval", "--checkpoint", "other")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and words in result.stderr


def test_failed_episodes_are_counted_with_their_reason(workspace: Workspace) -> None:
    workspace.config["environment"]["type"] = "cli_environments:RaisesInReset"
    hold_out(workspace, n_samples_per_prompt=2)
    result = workspace.run("eval")
    assert result.exit_code == 1
    reason = "environment: reset: RuntimeError: the world is closed"
    assert f"6 x {reason}" in result.stdout and f"6 x {reason}" in result.stderr
    assert re.search(r"reward +unknown", result.stdout)


def test_on_a_terminal_the_worst_tasks_are_listed(workspace: Workspace) -> None:
    workspace.config["environment"]["type"] = "cli_environments:Silent"
    hold_out(workspace)
    write_rows(workspace.folder / "held.jsonl", [{"id": f"t{n}", "prompt": "1"} for n in range(25)])
    workspace.save()
    folder = str(Path(__file__).parent)
    done = run_on_terminal(
        [sys.executable, "-m", "retrain", "eval", "c.yaml"],
        folder=workspace.folder,
        environment={**os.environ, "TERM": "dumb", "COLUMNS": "80", "PYTHONPATH": folder},
    )
    text = done.terminal
    assert done.code == 0, done.piped
    assert len(re.findall(r"\bt\d+\r\n", text)) == 20
    assert "and 5 tasks that did better" in text


def on_a_terminal(workspace: Workspace, *options: str, term: str = "xterm") -> tuple[str, str]:
    """What `retrain eval` writes to its output and to standard error, which is a terminal."""
    folder = str(Path(__file__).parent)
    done = run_on_terminal(
        [sys.executable, "-m", "retrain", "eval", "c.yaml", *options],
        streams=("stderr",),
        folder=workspace.folder,
        environment={**os.environ, "TERM": term, "COLUMNS": "100", "PYTHONPATH": folder},
    )
    assert done.code == 0, done.terminal
    return done.piped, done.terminal


def test_on_a_terminal_the_tasks_done_are_counted(workspace: Workspace) -> None:
    workspace.config["environment"]["type"] = "cli_environments:Silent"
    hold_out(workspace)
    workspace.save()
    output, shown = on_a_terminal(workspace)
    assert "3/3" in shown and "reward +0.500" in shown
    assert "3/3" not in output and output.startswith("tiny: ")
    _, quiet = on_a_terminal(workspace, "--json")
    assert quiet == ""
    _, dumb = on_a_terminal(workspace, term="dumb")
    assert dumb == ""


def test_a_checkpoint_of_another_size_is_named(workspace: Workspace) -> None:
    model = copied(workspace)
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**settings, "hidden_size": 64}))
    ours = workspace.config["model"]["name_or_path"]
    for command in ("eval", "rollout"):
        result = workspace.run(command, "--checkpoint", "other")
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"error: --checkpoint {model}: is of another model than" in result.stderr
        assert f"({ours}): its hidden_size is 64, the model's {settings['hidden_size']}" in (
            result.stderr
        )


def test_a_checkpoint_of_another_architecture_is_named(workspace: Workspace) -> None:
    model = copied(workspace)
    settings = json.loads((model / "config.json").read_text())
    changed = {**settings, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    (model / "config.json").write_text(json.dumps(changed))
    result = workspace.run("eval", "--checkpoint", "other")
    assert result.exit_code == 2
    assert f"its model_type is llama, the model's {settings['model_type']}" in result.stderr
