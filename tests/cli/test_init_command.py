"""`retrain init`: projects whose own tests pass, and that plan and train as they come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from retrain.cli.main import app
from retrain.scaffold import KINDS

SHORT = (
    "stages.0.algorithm.hyperparameters.num_iterations=1",
    "algorithm.hyperparameters.num_iterations=1",
)


COSTLY = [pytest.param(kind, marks=() if kind == "tool" else pytest.mark.soak) for kind in KINDS]
"""Every kind, of which CI takes one."""


def init(*arguments: str) -> Result:
    result: Any = CliRunner().invoke(app, ["init", *arguments])
    return result


def run(folder: Path, *command: str) -> str:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=KINDS)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("init") / f"my_{request.param}"
    result = init(str(folder), "--like", request.param)
    assert result.exit_code == 0, result.output
    run(folder, "prepare.py")
    return folder


def test_the_project_has_its_name_and_a_readme(project: Path) -> None:
    texts = [path.read_text() for path in project.iterdir() if path.suffix in (".md", ".yaml")]
    assert len(texts) >= 2
    assert all(project.name in text and "PROJECT_NAME" not in text for text in texts)


def test_its_own_tests_pass(project: Path) -> None:
    output = run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".")
    assert " passed" in output
    assert "failed" not in output


@pytest.mark.parametrize("project", COSTLY, indirect=True)
def test_both_backends_plan_it(project: Path) -> None:
    for backend in ("trl", "slime"):
        text = run(project, "-m", "retrain", "plan", "config.yaml", "--backend", backend, "--json")
        assert json.loads(text)["runnable"]


@pytest.mark.slow
@pytest.mark.parametrize("project", COSTLY, indirect=True)
def test_it_trains(project: Path) -> None:
    options = [option for value in SHORT for option in ("--set", value)]
    run(project, "-m", "retrain", "train", "config.yaml", *options)
    run_folder = project / "runs" / project.name
    rows = (run_folder / "stages" / "grpo" / "metrics.jsonl").read_text().splitlines()
    assert rows


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = init(str(tmp_path))
    assert result.exit_code == 2
    assert "there is something already" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    assert init(str(tmp_path)).exit_code == 0
    assert (tmp_path / "config.yaml").is_file()


def test_an_unknown_kind_is_named_with_the_known_ones(tmp_path: Path) -> None:
    result = init(str(tmp_path / "new"), "--like", "toool")
    assert result.exit_code == 2
    assert "did you mean 'tool'?" in result.stderr
    assert list(tmp_path.iterdir()) == []
