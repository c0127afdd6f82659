"""`retrain env`: what it lists, and what it says about environments that break their promises."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from retrain.cli.main import app

WORLDS = """
import os
import time

from retrain.environment import ToolEnvironment, tool


class NoHint(ToolEnvironment):
    @tool
    def look(self, thing) -> str:
        "Look."
        return "x"


class NoSchema(ToolEnvironment):
    @tool
    def look(self, a: int, b: os.PathLike.__class__) -> str:
        "Look."
        return "x"


class Polite:
    def __init__(self, greeting: str = "hi"):
        self.greeting = greeting

    def reset(self, task):
        return f"{self.greeting}: {task.prompt}"

    def step(self, action):
        return "go on", 0.0, False, False, {}


class Leaks(Polite):
    played = []

    def reset(self, task):
        self.played.append(task.id)
        return f"This is game {len(self.played)}."


class Hangs(Polite):
    def step(self, action):
        while action.parse_error:
            time.sleep(1)
        return super().step(action)


class Exits(Polite):
    def step(self, action):
        if action.truncated:
            os._exit(0)
        return super().step(action)


class Needs(Polite):
    def reset(self, task):
        return task.metadata["board"]


class NoSteps:
    def reset(self, task):
        return "hi"
"""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worlds")
    (folder / "checked_worlds.py").write_text(textwrap.dedent(WORLDS), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def here(worlds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(worlds)
    monkeypatch.syspath_prepend(str(worlds))


def env(*arguments: str) -> Result:
    result: Any = CliRunner().invoke(app, ["env", *arguments])
    return result


def checked(name: str, *options: str) -> dict[str, Any]:
    result = env("check", f"checked_worlds:{name}", "--json", *options)
    document: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (0 if document["held"] else 1)
    return document


def broken(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in document["checks"] if one["outcome"] == "broken"}


def test_an_environment_that_keeps_its_promises() -> None:
    document = checked("Polite", "--param", "greeting=hello")
    assert document["held"]
    assert len(document["checks"]) == 15
    assert {one["outcome"] for one in document["checks"]} == {"held"}


def test_state_that_leaks_between_episodes_is_found_and_shown() -> None:
    result = env("check", "checked_worlds:Leaks")
    assert result.exit_code == 1
    assert "broken   episodes leave nothing behind" in result.stdout
    assert "expected: (Message(role='user', content='This is game" in result.stdout
    assert "held     actions are left as they were" in result.stdout
    assert "checked_worlds:Leaks breaks 3 of its promises" in result.stdout


def test_an_episode_that_hangs_is_a_finding_and_the_others_are_still_played() -> None:
    document = checked("Hangs", "--seconds", "3", "--live")
    found = broken(document)
    assert found["every answer can be read"]["findings"] == [
        {"text": "it did not end within 3 s", "scripts": ["parse_error"], "agents": []}
    ]
    names = {one["name"]: one["outcome"] for one in document["checks"]}
    assert names["what was said stays"] == "held"
    assert names["one seed gives one episode"] == "skipped"


def test_an_environment_that_ends_the_process_is_a_finding() -> None:
    found = broken(checked("Exits", "--live"))
    assert found["every answer can be read"]["findings"] == [
        {"text": "it ended the process, with exit code 0", "scripts": ["cut"], "agents": []}
    ]


def test_tasks_of_its_own(worlds: Path) -> None:
    rows = [{"id": str(n), "prompt": "play", "board": f"board {n}"} for n in range(3)]
    path = worlds / "boards.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert checked("Needs", "--tasks", str(path))["held"]
    text = env("check", "checked_worlds:Needs").stdout
    assert "reset: KeyError: 'board'" in text
    assert "and 7 more" in text


def test_the_environment_and_tasks_of_a_configuration(worlds: Path) -> None:
    config = {
        "experiment_name": "boards",
        "model": {"name_or_path": "nowhere"},
        "environment": {"type": "checked_worlds:Needs"},
        "prompt_source": {
            "type": "list",
            "source_config": {"items": [{"id": "only", "prompt": "play", "board": "the board"}]},
        },
        "algorithm": {"name": "grpo", "backend": "trl", "hyperparameters": {"num_iterations": 1}},
    }
    (worlds / "boards.yaml").write_text(json.dumps(config), encoding="utf-8")
    result = env("check", "boards.yaml")
    assert result.exit_code == 0, result.output
    assert "boards.yaml keeps its promises" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["checked_worlds:NoSteps"], "NoSteps has no step; expected step(action)"),
        (["checked_worlds:Politte"], "did you mean 'Polite'?"),
        (["checked_worlds:NoHint"], "tool 'look': parameter 'thing' needs a type hint"),
        (["checked_worlds:NoSchema"], "tool 'look': parameter 'b': JSON cannot express its type"),
        (["calcullator"], "did you mean 'calculator'?"),
        (["calculator", "--param", "turns=3"], "env_specific_config.turns"),
        (["calculator", "--param", "turns"], "write it as key=value"),
        (["calculator", "--tasks", "none.jsonl"], "none.jsonl: no such file"),
        (["none.yaml", "--param", "a=1"], "the configuration gives the arguments"),
    ],
)
def test_bad_input_is_one_message(arguments: list[str], message: str) -> None:
    result = env("check", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_list_has_names_and_arguments() -> None:
    text = env("list").stdout
    assert "calculator" in text
    assert "max_turns: int = 5" in text
    rows = {row["name"]: row for row in json.loads(env("list", "--json").stdout)}
    assert rows["calculator"]["summary"]
    assert "retrain.environment" not in " ".join(rows["tools"]["arguments"])
