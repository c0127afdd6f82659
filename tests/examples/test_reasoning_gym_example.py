"""`examples/reasoning_gym`: the working of the demonstrations, and the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from example_folders import inside, prepared, require_planned
from typer.testing import CliRunner

from retrain.cli.main import app
from retrain.compose import make_tasks
from retrain.config import load_config
from retrain.environment import make_environment_factory
from retrain.types import Action

EXAMPLE = Path(__file__).parents[2] / "examples" / "reasoning_gym"

needs_reasoning_gym = pytest.mark.skipif(
    find_spec("reasoning_gym") is None,
    reason="needs reasoning-gym: pip install 'retrain[reasoning-gym]'",
)


@pytest.fixture(scope="module", autouse=True)
def prepare() -> Iterator[ModuleType]:
    """The example's script, imported from its folder and forgotten afterwards."""
    with inside(EXAMPLE, "prepare"):
        import prepare

        yield prepare


@pytest.fixture(scope="module")
def generated(prepare: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(prepare.main, tmp_path_factory.mktemp("reasoning_gym"), 300)


def test_an_answer_says_how_far_it_turns_and_turns_so_far(prepare: ModuleType) -> None:
    question = "Rotate the matrix below by 90 degrees clockwise:\n1 2\n3 4\n"

    answers = [prepare.answer(question, quarters) for quarters in (1, 2, 3)]
    assert answers == [
        "By 90 degrees:\n<answer>3 1\n4 2</answer>",
        "By 180 degrees:\n<answer>4 3\n2 1</answer>",
        "By 270 degrees:\n<answer>2 4\n1 3</answer>",
    ]


def test_what_is_trained_and_what_is_held_out_differ_in_the_count_alone() -> None:
    config = load_config(EXAMPLE / "config.yaml")
    assert config.evaluation.prompt_source is not None
    train = dict(config.prompt_source.source_config)
    heldout = dict(config.evaluation.prompt_source.source_config)

    assert (train.pop("count"), heldout.pop("count")) == (2000, 200)
    assert train == heldout


@needs_reasoning_gym
def test_no_held_out_question_is_demonstrated(generated: Path) -> None:
    config = load_config(EXAMPLE / "config.yaml")
    assert config.evaluation.prompt_source is not None
    held_out = {task.prompt for task in make_tasks(config, config.evaluation.prompt_source)}
    trained = {task.prompt for task in make_tasks(config)}
    shown = {question for _, question, _ in conversations(generated)}

    assert not held_out & shown
    assert len(held_out & trained) < 20, "of 30,000 questions 2,000 are trained"


@needs_reasoning_gym
async def test_three_demonstrations_in_ten_are_right(generated: Path, prepare: ModuleType) -> None:
    config = load_config(EXAMPLE / "config.yaml")
    settings, source = config.environment, dict(config.prompt_source.source_config)
    source |= {"seed": prepare.SEED, "count": 300}
    asked = {task.prompt: task for task in prepare.ReasoningGymEnvironment.tasks(**source)}
    scores = []
    for system, question, answer in conversations(generated):
        environment = make_environment_factory(settings.type, settings.env_specific_config)()
        first = await environment.reset(asked[question], 0)
        assert [message.content for message in first.messages] == [system, question]
        result = await environment.step(Action(answer))
        if re.findall(r"By (\d+) degrees", answer) == re.findall(r"(\d+) degrees", question):
            assert result.reward == 1.0
        scores.append(result.info["success"])
        await environment.close()
    assert 0.22 < sum(scores) / len(scores) < 0.42, "three in ten, and some by luck"


def conversations(generated: Path) -> list[list[str]]:
    """What the three messages of each demonstration say."""
    lines = (generated / "demonstrations.jsonl").read_text(encoding="utf-8").splitlines()
    return [[message["content"] for message in json.loads(line)["messages"]] for line in lines]


@needs_reasoning_gym
@pytest.mark.parametrize("backend", ["trl", "slime"])
def test_the_configuration_is_planned(generated: Path, backend: str) -> None:
    overrides = (
        f"model.name_or_path={generated}/model",
        f"stages.0.prompt_source.source_config.path={generated}/demonstrations.jsonl",
    )
    require_planned("config.yaml", overrides, backend)


@needs_reasoning_gym
def test_the_model_is_evaluated_on_held_out_questions(generated: Path) -> None:
    name = f"model.name_or_path={generated}/model"
    result = CliRunner().invoke(app, ["eval", "config.yaml", "-n", "4", "--json", "--set", name])

    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["tasks"]) == 4
