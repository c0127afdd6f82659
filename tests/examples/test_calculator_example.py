"""The material of `examples/calculator`: what its scripts write, and that its template is exact."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from retrain.config import load_config
from retrain.environment import make_environment_factory
from retrain.environment.arithmetic import evaluate
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.rollout.messages import read_messages
from retrain.rollout.sources import RowKeys, jsonl_tasks
from retrain.types import Action, Message, Observation, StepResult, Task, ToolCall

EXAMPLE = Path(__file__).parents[2] / "examples" / "calculator"
CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "'


def run_script(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLE / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calculator_data")
    run_script("make_demonstrations.py", "--output", str(folder))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calculator_model")
    run_script("make_model.py", "--output", str(folder))
    return folder


@pytest.fixture(scope="module")
def renderer(model: Path) -> DeltaRenderer:
    from transformers import AutoTokenizer

    return load_renderer(AutoTokenizer.from_pretrained(model))


def tools() -> Any:
    return make_environment_factory("calculator", {"max_turns": 4})().tools


async def replay(row: dict[str, Any], label: str) -> StepResult:
    """Step the environment with a demonstration's turns, comparing its replies on the way."""
    messages = read_messages("row", row["messages"])
    environment = make_environment_factory("calculator", {"max_turns": 4})()
    await environment.reset(Task(row["id"], messages[0].content, label), seed=0)
    result = StepResult(Observation())
    for position, message in enumerate(messages):
        if message.role != "assistant":
            continue
        result = await environment.step(Action(message.content, tool_calls=message.tool_calls))
        if message.tool_calls:
            assert [m.content for m in result.observation.messages] == [
                messages[position + 1].content
            ]
    await environment.close()
    return result


def test_train_heldout_and_demonstrated_tasks_do_not_overlap(data: Path) -> None:
    train, heldout, shown = (
        jsonl_tasks(data / f"{name}.jsonl", RowKeys())
        for name in ("train", "heldout", "demonstrations")
    )
    prompts = [task.messages[0].content for task in (*train, *heldout, *shown)]
    assert (len(train), len(heldout), len(shown)) == (2000, 200, 4000)
    assert len(set(prompts)) == len(prompts)


def test_labels_are_what_the_tasks_ask_for(data: Path) -> None:
    for row in read_rows(data / "train.jsonl") + read_rows(data / "heldout.jsonl"):
        first, then = row["prompt"].split(" then ")
        assert evaluate(f"({first}){then}") == int(row["label"]) > 0


async def test_the_environment_gives_the_demonstrations_their_replies_and_rewards(
    data: Path,
) -> None:
    kinds: Counter[str] = Counter()
    for row in read_rows(data / "demonstrations.jsonl")[::4]:
        kind = row["id"].rpartition("-")[2]
        first, then = row["messages"][0]["content"].split(" then ")
        result = await replay(row, str(evaluate(f"({first}){then}")))
        assert result.terminated
        if kind == "right":
            assert result.reward == 1.0
        kinds[f"{kind}:{result.reward:g}"] += 1
    assert 0.27 < kinds["right:1"] / kinds.total() < 0.33
    lucky = sum(count for kind, count in kinds.items() if kind.endswith(":1")) - kinds["right:1"]
    assert lucky / kinds.total() < 0.01


def test_the_same_seed_writes_the_same_files(data: Path, tmp_path: Path) -> None:
    run_script("make_demonstrations.py", "--output", str(tmp_path / "again"))
    run_script("make_demonstrations.py", "--output", str(tmp_path / "other"), "--seed", "1")
    assert digests(tmp_path / "again") == digests(data)
    assert not digests(tmp_path / "other").items() & digests(data).items()


def test_the_model_folder_is_made_the_same_twice(model: Path) -> None:
    before = digests(model)
    run_script("make_model.py", "--output", str(model))
    assert digests(model) == before


def test_the_model_is_tiny_and_its_tokens_are_told_apart(model: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network = AutoModelForCausalLM.from_pretrained(model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    assert network.num_parameters() < 450_000
    assert network.get_input_embeddings().weight is network.get_output_embeddings().weight
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    assert network.generation_config.eos_token_id == tokenizer.eos_token_id


def test_the_template_is_exact_for_every_kind_of_reply(renderer: DeltaRenderer) -> None:
    assert renderer.tool_format == "hermes"
    assert set(renderer.check_report.values()) == {None}


def test_an_episode_is_65_tokens_and_a_call_opens_with_one(renderer: DeltaRenderer) -> None:
    question, schemas = [Message("user", "75+99 then *6")], tools()
    stream = renderer.first(question, schemas)
    history = question
    for expression, result in (("75+99", "174"), ("174*6", "1044")):
        message = Message(
            "assistant", tool_calls=(ToolCall("calculator", {"expression": expression}),)
        )
        sampled = renderer.turn(history, message, schemas)
        assert renderer.decode(sampled[:1]) == CALL
        action = renderer.parse(sampled)
        assert action.tool_calls == message.tool_calls
        reply = Message("tool", result, name="calculator")
        stream += sampled + renderer.delta(action, [reply], sampled[-1], schemas)
        history = [*history, message, reply]
    answer = Message("assistant", "1044")
    stream += renderer.turn(history, answer, schemas)
    whole = renderer.template.render([*history, answer], schemas, generation_prompt=False)
    assert renderer.decode(stream) == whole.removesuffix("\n")
    assert len(stream) == 65


def test_any_text_can_be_said_to_the_model(renderer: DeltaRenderer) -> None:
    strange = "Fehler: »½« 算 \U0001f9ee <|im_end|> <tool_call>"
    call = Action(tool_calls=(ToolCall("calculator", {"expression": "1/0"}),))
    ids = renderer.delta(
        call, [Message("tool", strange)], next(iter(renderer.stop_token_ids)), tools()
    )
    assert strange in renderer.decode(ids)
    assert sum(i in renderer.stop_token_ids for i in ids) == 1


def test_the_demo_configuration_has_two_stages_on_one_model() -> None:
    config = load_config(EXAMPLE / "config.yaml")
    stages = config.stage_configs()
    assert [(name, stage.algorithm.name) for name, stage in stages] == [
        ("sft", "sft"),
        ("grpo", "grpo"),
    ]
    for _, stage in stages:
        assert Path(stage.model.name_or_path) == EXAMPLE / "generated" / "model"
    sources = [Path(stage.prompt_source.source_config["path"]).name for _, stage in stages]
    assert sources == ["demonstrations.jsonl", "train.jsonl"]


def test_the_pretrained_configuration_names_a_model_of_the_hub() -> None:
    config = load_config(EXAMPLE / "config_pretrained.yaml")
    assert config.model.name_or_path == "Qwen/Qwen2.5-0.5B-Instruct"
    assert config.stages == ()
    make_environment_factory(config.environment.type, config.environment.env_specific_config)
