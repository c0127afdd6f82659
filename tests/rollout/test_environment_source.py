from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.environment.arithmetic import evaluate
from retrain.environment.calculator import CalculatorEnvironment
from retrain.errors import ConfigError, DataError
from retrain.rollout import sources_environment
from retrain.rollout.sources import make_tasks
from retrain.types import Action, Observation, StepResult, Task

HERE = "test_environment_source"


class World:
    """An environment without tasks of its own."""

    def reset(self, task: Task, seed: int) -> Observation:
        return Observation(task.messages)

    def step(self, action: Action) -> StepResult:
        return StepResult(Observation(), 1.0, True, False, {})


class Mazes(World):
    @classmethod
    def tasks(cls, *, seed: int, size: int = 3) -> list[Task | dict[str, Any] | str]:
        return [
            Task("whole", f"maze {seed}", None, {"size": size}),
            {"id": "row", "prompt": "a row", "label": "3", "walls": 2},
            "a plain prompt",
        ]


class Fixed(World):
    @staticmethod
    def tasks(split: str) -> Iterator[str]:
        yield from (f"{split} {number}" for number in range(2))


class Unmarked(World):
    def tasks(self) -> list[str]:
        return ["never asked"]


class Broken(World):
    @classmethod
    def tasks(cls, fault: str) -> Any:
        found: dict[str, Any] = {
            "nothing": [],
            "none": None,
            "text": "a prompt",
            "no JSON": [{"prompt": "x", "when": object()}],
            "number": [3],
            "number as id": [Task(3, "x")],
            "twice": [Task("a", "x"), Task("a", "y")],
            "no prompt": [{"question": "x"}],
        }
        return found[fault]


class Endless(World):
    @classmethod
    def tasks(cls) -> Iterator[str]:
        return (f"prompt {number}" for number in itertools.count())


class Raising(World):
    known: ClassVar[list[str]] = []

    @classmethod
    def tasks(cls) -> Iterator[str]:
        yield "one"
        yield cls.known[0]


def read(name: str, seed: int = 5, **source_config: Any) -> tuple[Task, ...]:
    return make_tasks("environment", source_config, Path(), environment=f"{HERE}:{name}", seed=seed)


def test_an_environment_offers_tasks_rows_and_prompts() -> None:
    whole, row, plain = read("Mazes", size=7)
    assert whole == Task("whole", "maze 5", None, {"size": 7})
    assert row == Task("row", "a row", "3", {"walls": 2})
    assert plain == Task("task-2", "a plain prompt")


def test_a_seed_that_the_configuration_names_wins() -> None:
    assert read("Mazes", seed=5)[0].prompt == "maze 5"
    named = make_tasks("environment", {"seed": 9}, Path(), environment=f"{HERE}:Mazes", seed=5)
    assert named[0].prompt == "maze 9"


def test_tasks_that_are_not_random_need_no_seed() -> None:
    assert [task.prompt for task in read("Fixed", split="test")] == ["test 0", "test 1"]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("World", {}, "offers no tasks; give it a class method tasks"),
        ("Unmarked", {}, "tasks is asked of the class.*mark it with @classmethod"),
        ("Mazes", {"sise": 3}, r"source_config\.sise: .* did you mean 'size'"),
        ("Mazes", {"size": "3"}, r"source_config\.size: input should be a valid integer"),
        ("Fixed", {}, r"source_config\.split: missing"),
        ("Fixed", {"split": "a", "seed": 3}, r"source_config\.seed: .* takes no 'seed'"),
        ("Absent", {}, "has no 'Absent'"),
    ],
)
def test_a_section_that_does_not_fit_is_named(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_tasks("environment", settings, Path(), environment=f"{HERE}:{name}")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nothing", "gives no task; check prompt_source.source_config"),
        ("none", "expected a list of tasks, or a generator, got None"),
        ("text", "expected a list of tasks, or a generator, got 'a prompt'"),
        ("no JSON", r"tasks\(\)\[0\]: label and metadata must be JSON values"),
        ("number", r"tasks\(\)\[0\]: expected an object with 'prompt', got 3"),
        ("number as id", r"tasks\(\)\[0\]: the id must be text, got 3"),
        ("twice", "task id 'a' stands twice"),
        ("no prompt", r"tasks\(\)\[0\]: has no 'prompt' \(keys: question\)"),
    ],
)
def test_tasks_that_cannot_be_used_are_named(fault: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read("Broken", fault=fault)


def test_what_tasks_raises_is_told() -> None:
    with pytest.raises(DataError, match=r"test_environment_source:Raising'.*IndexError: list"):
        read("Raising")


def test_tasks_that_do_not_end_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_environment, "MOST", 50)
    with pytest.raises(DataError, match="gives more than 50 tasks; an epoch ends"):
        read("Endless")


@given(st.integers(0, 2**63), st.integers(1, 20), st.integers(1, 5), st.integers(1, 999))
def test_the_calculators_sums_follow_from_the_seed(
    seed: int, count: int, terms: int, largest: int
) -> None:
    def make(seed: int) -> list[Task]:
        return [*CalculatorEnvironment.tasks(seed=seed, count=count, terms=terms, largest=largest)]

    tasks = make(seed)
    assert tasks == make(seed)
    assert len({task.id for task in tasks}) == len(tasks) == count
    for task in tasks:
        sum_ = str(task.prompt).removeprefix("What is ").removesuffix("?")
        assert str(evaluate(sum_)) == task.label
        numbers = [int(part) for part in sum_.split() if part.isdecimal()]
        assert len(numbers) == terms and 1 <= min(numbers) <= max(numbers) <= largest
    if count > 10 and terms > 1 and largest > 50:
        assert tasks != make(seed + 1)
