from __future__ import annotations

import re
import signal

import pytest
from cli_workspace import Workspace, write_rows

from retrain.report.metric_names import metric_named
from retrain.report.metrics import read_metrics

pytestmark = pytest.mark.slow


def test_a_run_ends_with_its_figures_and_where_things_are(workspace: Workspace) -> None:
    result = workspace.run("train")
    assert result.exit_code == 0
    assert "\x1b" not in result.output and "\r" not in result.output
    progress = result.stderr.splitlines()
    assert progress[0] == "tiny: 2 iterations"
    assert re.match(r"iteration 2/2  reward [-+.\d]+  .*tokens/s [\d,]+  left 0 s", progress[2])
    assert re.search(r"reward: -?\d\.\d{3} -> ", result.stdout)
    assert "failures: 0 of 8 episodes" in result.stdout
    named = dict(line.strip().split(": ", 1) for line in result.stdout.splitlines() if ": " in line)
    for name in ("model", "samples", "curve", "report"):
        assert (workspace.folder / named[name]).exists()
    logged = {
        name for row in read_metrics(workspace.folder / "run/metrics.jsonl") for name in row.values
    }
    assert [name for name in sorted(logged) if metric_named(name) is None] == []
    assert named["look at it"] == "retrain view run"
    command = named["see it play"].split()
    assert command[:3] == ["retrain", "rollout", "c.yaml"]
    assert workspace.run("rollout", *command[3:]).exit_code == 0

    again = workspace.run("train")
    assert again.exit_code == 2 and "already holds a run" in again.stderr


def test_a_run_that_fails_says_why(workspace: Workspace) -> None:
    workspace.config["environment"]["type"] = "cli_environments:RaisesInReset"
    result = workspace.run("train")
    assert result.exit_code == 1
    assert "error: 4 of 4 episodes failed" in result.stderr
    assert "4 x environment: reset: RuntimeError: the world is closed" in result.stderr


def with_warm_up(workspace: Workspace) -> None:
    rows = [
        {"messages": [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]}
    ]
    write_rows(workspace.folder / "shown.jsonl", rows)
    workspace.config["stages"] = [
        {
            "name": "warm",
            "algorithm": {"name": "sft"},
            "prompt_source": {"source_config": {"path": "shown.jsonl"}},
        },
        {"name": "rl"},
    ]


def test_a_run_with_stages_ends_with_the_figures_of_those_that_played(
    workspace: Workspace,
) -> None:
    with_warm_up(workspace)
    result = workspace.run("train")
    assert result.exit_code == 0
    assert "tiny, stage rl" in result.stdout and "stage warm" not in result.stdout
    assert f"model: {workspace.output / 'stages' / 'rl' / 'model'}\n" in result.stdout
    again = workspace.run("train", "--resume")
    assert again.exit_code == 0
    assert "tiny / rl: has ended after 2 iterations; nothing to go on with" in again.stderr
    assert again.stdout == result.stdout


def test_an_environment_that_cannot_be_made_ends_a_warm_up_without_a_traceback(
    workspace: Workspace,
) -> None:
    with_warm_up(workspace)
    workspace.config["environment"]["type"] = "cli_environments:RaisesWhenMade"
    result = workspace.run("train")
    assert result.exit_code == 1
    reason = "error: environment constructor: LookupError: no key for the world"
    assert result.stderr.splitlines()[-1] == reason


def test_failed_episodes_are_counted_where_they_are_allowed(workspace: Workspace) -> None:
    name = "cli_environments:not_a_number"
    workspace.config["reward_setup"] = {"rollout_reward_configs": {name: {}}}
    result = workspace.run("train", "--set", "rollout.max_failure_rate=1.0")
    assert result.exit_code == 0
    (first, *_) = read_metrics(workspace.output / "metrics.jsonl")
    assert first.values["rollout/masked"] == 4
    assert "reward/mean" not in first.values


def test_ctrl_c_leaves_a_checkpoint_and_the_command_to_go_on(workspace: Workspace) -> None:
    workspace.hyper["num_iterations"] = 400
    process = workspace.start("train", "--set", "seed=3")
    assert process.stderr is not None
    try:
        seen = [next(process.stderr) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
    finally:
        process.kill()
    assert seen[0] == "tiny: 400 iterations\n"
    assert process.returncode == 130, err
    assert "Traceback" not in err and "stopping after this iteration" in err
    command = "retrain train c.yaml --set seed=3 --resume"
    done = re.search(rf"interrupted after iteration (\d+); to go on: {command}\n", err)
    assert done is not None, err
    reached = int(done[1])
    assert 0 < reached < 400
    total = f"algorithm.hyperparameters.num_iterations={reached + 1}"
    result = workspace.run("train", "--set", "seed=3", "--resume", "--set", total)
    assert result.exit_code == 0
    assert f"tiny: {reached + 1} iterations, {reached} done before" in result.stderr
    rows = read_metrics(workspace.output / "metrics.jsonl")
    assert [row.iteration for row in rows] == list(range(1, reached + 2))
