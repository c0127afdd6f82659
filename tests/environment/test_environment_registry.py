"""From the `environment` section of a configuration to environments."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from retrain.environment import ENVIRONMENTS, Environment, ToolEnvironment, make_environment_factory
from retrain.environment.calculator import CalculatorEnvironment
from retrain.errors import ConfigError
from retrain.types import Action, StepResult, Task

KEY = r"environment\.env_specific_config\."


class Game:
    """A plain class, named by import path below."""

    def __init__(
        self,
        size: int,
        level: Literal["easy", "hard"] = "easy",
        shape: tuple[int, int] = (1, 1),
        folder: Path | None = None,
        anything=None,  # type: ignore[no-untyped-def]
    ) -> None:
        self.given = (size, level, shape, folder, anything)

    def reset(self, task: Task) -> str:
        return "go"

    def step(self, action: Action) -> tuple[Any, ...]:
        return "on", 0.0, False, False, {}


class Open(ToolEnvironment):
    def __init__(self, size: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.size = size


class Unfinished(Environment):
    async def step(self, action: Action) -> StepResult:
        raise NotImplementedError


class NoStep:
    def reset(self, task: Task) -> str:
        return ""


def path(thing: Any) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def test_a_registered_name_makes_a_fresh_environment_each_time() -> None:
    factory = make_environment_factory("calculator", {"max_turns": 3})

    first, second = factory(), factory()

    assert isinstance(first, Environment)
    assert isinstance(first.inner, CalculatorEnvironment)
    assert first.inner is not second.inner
    assert first.inner.max_turns == 3


def test_the_built_in_names_are_listed() -> None:
    assert {"calculator", "tools"} <= set(ENVIRONMENTS.names())


async def test_a_plain_class_is_found_by_import_path() -> None:
    environment = make_environment_factory(path(Game), {"size": 3})()

    assert (await environment.reset(Task("t", "x"), 0)).messages[0].content == "go"


def test_values_get_the_types_that_the_class_declares() -> None:
    config = {"size": 2, "shape": [2, 3], "folder": "a/b", "anything": {1: 2}}

    given = make_environment_factory(path(Game), {**config, "level": "hard"})().inner.given

    assert given == (2, "hard", (2, 3), Path("a/b"), {1: 2})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"size": 1, "sise": 2}, KEY + r"sise: Game takes no 'sise'; did you mean 'size'"),
        ({}, KEY + r"size: missing; Game needs it"),
        ({"size": "5"}, KEY + r"size: .*integer, got '5'"),
        ({"size": True}, KEY + r"size: .*integer, got True"),
        ({"size": 1, "level": "mad"}, KEY + r"level: .*'easy' or 'hard', got 'mad'"),
        ({"size": 1, "shape": [1]}, KEY + r"shape\.1: missing"),
    ],
)
def test_a_wrong_key_or_value_is_named(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_environment_factory(path(Game), config)


def test_keys_that_are_passed_on_to_a_base_class_are_known() -> None:
    environment = make_environment_factory(path(Open), {"size": 2, "max_turns": 4})()

    assert (environment.inner.size, environment.inner.max_turns) == (2, 4)
    with pytest.raises(ConfigError, match=KEY + r"max_turn: .*did you mean 'max_turns'"):
        make_environment_factory(path(Open), {"max_turn": 4})


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        ("calculater", "unknown environment 'calculater': did you mean 'calculator'"),
        (path(Unfinished), "does not define reset"),
        (path(NoStep), "environment.type: NoStep has no step"),
        ("string:digits", "neither a class nor a function"),
    ],
)
def test_what_is_no_environment_is_refused(type_: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_environment_factory(type_, {})


def test_a_factory_can_cross_a_process() -> None:
    factory = make_environment_factory("calculator", {"max_turns": 2})

    assert pickle.loads(pickle.dumps(factory)) == factory


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = (
        "import sys, retrain.environment, retrain.reward\n"
        "heavy = {'pydantic', 'docstring_parser', 'torch', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from retrain.environment import Environment, tool, ToolEnvironment, ToolError\n"
        "assert callable(tool)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
