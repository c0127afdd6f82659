"""`type: reasoning_gym`: every data set of the installed version, asked and scored."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

pytest.importorskip("reasoning_gym", reason="needs it: pip install 'retrain[reasoning-gym]'")

from reasoning_gym.factory import DATASETS
from reasoning_gym.utils import SYSTEM_PROMPTS

from retrain.environment import make_environment_factory
from retrain.environment.adapters.reasoning_gym import ReasoningGymEnvironment
from retrain.errors import ConfigError, DataError, EnvironmentFailure, MissingDependency
from retrain.rollout.sources_environment import environment_tasks
from retrain.testing import EnvironmentSuite
from retrain.types import Action, Message, StepResult, Task

COMPOSITE = {
    "datasets": [
        {"name": "chain_sum", "weight": 2.0, "config": {"max_terms": 3}},
        {"name": "leg_counting"},
    ]
}
WITHOUT_AN_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""They accept many answers, and their entries name none."""
JUNK = (
    None,
    "",
    "no such answer",
    "1/0",
    "((",
    "漢",
    "x = 3",
    "[[1], 2]",
    "{}",
    "-1",
    "0,0",
    "A B C",
)


def tasks(dataset: str, count: int = 1, **config: Any) -> tuple[Task, ...]:
    source = {"dataset": dataset, "count": count, "config": config}
    return environment_tasks("reasoning_gym", source, 2**62 + 1)


async def answered(task: Task, text: str, **config: Any) -> StepResult:
    environment = make_environment_factory("reasoning_gym", config)()
    await environment.reset(task, 0)
    result = await environment.step(Action(text))
    await environment.close()
    return result


class TestLegCounting(EnvironmentSuite):
    task, other_task = tasks("leg_counting", 2)
    answer = f"<answer>{task.label}</answer>"

    def make_environment(self) -> Any:
        return make_environment_factory("reasoning_gym")()


@pytest.mark.parametrize("dataset", sorted(DATASETS))
async def test_every_data_set_is_asked_and_scored(dataset: str) -> None:
    config = COMPOSITE if dataset == "composite" else {}
    (task,) = tasks(dataset, **config)
    (again,) = tasks(dataset, **config)
    assert task == again
    assert task.messages[0].content

    for junk in JUNK:
        result = await answered(task, f"<answer>{junk}</answer>")
        assert result.terminated
        assert 0.0 <= result.reward <= 1.0
    if dataset in WITHOUT_AN_ANSWER:
        assert task.label is None
    else:
        result = await answered(task, f"So: <answer>\n{task.label}\n</answer>")
        assert (result.reward, result.info["success"]) == (1.0, True)


def test_no_data_set_of_the_installed_version_is_left_out() -> None:
    assert len(DATASETS) >= 104, version("reasoning-gym")
    assert set(DATASETS) >= WITHOUT_AN_ANSWER


async def test_the_question_stands_after_reasoning_gym_s_system_prompt() -> None:
    (task,) = tasks("chain_sum")
    prompts = []
    for config in (
        {},
        {"system_prompt": "simple"},
        {"system_prompt": "Hm."},
        {"system_prompt": None},
    ):
        environment = make_environment_factory("reasoning_gym", config)()
        prompts.append((await environment.reset(task, 0)).messages)
        await environment.close()

    question = Message("user", str(task.prompt))
    systems = (SYSTEM_PROMPTS["default"], SYSTEM_PROMPTS["simple"], "Hm.")
    expected: list[tuple[Message, ...]] = [(Message("system", t), question) for t in systems]
    assert prompts == [*expected, (question,)]


async def test_the_answer_is_what_stands_in_the_last_tags() -> None:
    (task,) = tasks("chain_sum")
    right = task.label
    texts = {
        f"<answer>0</answer> no, <answer> {right}\n</answer>": (1.0, right),
        f"The answer is {right}": (0.0, None),
        f"<answer>{right}": (0.0, None),
    }
    for text, (reward, answer) in texts.items():
        result = await answered(task, text)
        assert (result.reward, result.info["answer"]) == (reward, answer)
    assert (await answered(task, f" {right} ", answer_tag=None)).reward == 1.0
    assert (await answered(task, f"<sum>{right}</sum>", answer_tag="sum")).reward == 1.0


async def test_an_answer_that_the_scoring_cannot_read_earns_nothing_and_is_told() -> None:
    (task,) = tasks("prime_factorization")
    result = await answered(task, "<answer>two times three</answer>")

    assert result.reward == 0.0
    assert result.info["unreadable"].startswith("ValueError: ")


@pytest.mark.parametrize(
    "dataset", ["binary_matrix", "n_queens", "spiral_matrix", "string_insertion"]
)
async def test_an_answer_is_never_run_as_python(
    dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (task,) = tasks(dataset)
    result = await answered(task, "<answer>[print('ran')]</answer>")

    assert result.reward == 0.0
    assert "ran" not in capsys.readouterr().out


async def test_a_list_as_python_writes_it_is_scored_as_ever() -> None:
    (task,) = tasks("spiral_matrix", min_n=2, max_n=2)
    numbers = [int(number) for number in str(task.label).split()]

    assert (await answered(task, f"<answer>{numbers}</answer>")).reward == 0.1


async def test_a_composite_draws_from_its_parts() -> None:
    drawn = tasks("composite", 40, **COMPOSITE)
    legs = sum("legs" in str(task.prompt) for task in drawn)

    assert 5 < legs < 35
    assert [(await answered(t, f"<answer>{t.label}</answer>")).reward for t in drawn] == [1.0] * 40


async def test_rows_that_reasoning_gym_wrote_are_scored_too() -> None:
    (made,) = tasks("leg_counting")
    environment = ReasoningGymEnvironment()
    environment.reset(made)
    entry = environment._entry
    row = Task("r", entry["question"], entry["answer"], {"metadata": entry["metadata"]})

    assert (await answered(row, f"<answer>{row.label}</answer>")).reward == 1.0
    with pytest.raises(EnvironmentFailure, match="it has no metadata"):
        await answered(Task("r", "2 + 2?", "4"), "4")


async def test_another_version_s_question_is_noticed() -> None:
    (task,) = tasks("chain_sum")
    other = Task(task.id, "State the final answer: 1 + 1", task.label, task.metadata)

    with pytest.raises(EnvironmentFailure, match="makes another question of chain_sum 0"):
        await answered(other, "<answer>2</answer>")


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        ({"dataset": "leg_count"}, ConfigError, "has no 'leg_count'; did you mean 'leg_counting'"),
        (
            {"dataset": "chain_sum", "config": {"terms": 2}},
            ConfigError,
            "chain_sum: TypeError.*'terms'",
        ),
        ({"dataset": "chain_sum", "config": {"min_terms": -1}}, ConfigError, "chain_sum: Assert"),
        ({}, ConfigError, "prompt_source.source_config.dataset: missing"),
        ({"dataset": "chain_sum", "count": 0}, DataError, "gives no task"),
    ],
)
def test_a_wrong_source_is_named(source: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        environment_tasks("reasoning_gym", source, 1)


def test_its_absence_gives_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrain.environment.adapters.loading.find_spec", lambda _: None)

    for make in (lambda: make_environment_factory("reasoning_gym")(), lambda: tasks("chain_sum")):
        with pytest.raises(MissingDependency, match=r"pip install 'retrain\[reasoning-gym\]'"):
            make()
