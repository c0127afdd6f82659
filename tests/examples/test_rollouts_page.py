"""The examples of docs/rollouts.md run, and do what the page says."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from real_tokenizers import qwen_tokenizer

from retrain.config import RunConfig
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.report.filling_metrics import filling_metrics
from retrain.report.metric_names import METRICS
from retrain.rollout.filling import OverSampling, Tally
from retrain.rollout.filters import FILTERS
from retrain.types import Group, Task

PAGE = Path(__file__).parents[2] / "docs" / "rollouts.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


async def test_the_blocks_run_one_after_the_other(pytestconfig: pytest.Config) -> None:
    tokenizer = qwen_tokenizer(pytestconfig.cache.mkdir("tokenizers"))

    def answer(ids: Sequence[int], params: SamplingParams, session: str, seed: int) -> list[int]:
        text = f"The answer is {seed % 30}.<|im_end|>"
        return list(tokenizer.encode(text, add_special_tokens=False))

    names: dict[str, Any] = {"tokenizer": tokenizer, "endpoint": ScriptedEngine(answer)}
    found = blocks("python")
    assert len(found) == 5
    for block in found:
        code = compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result
    assert names["sample"].reward in (0.0, 1.0)
    assert len(names["batch"].groups) == 4 and names["state"]["rollout"]["version"]
    assert len(names["trained"]) == 3 * 8 and names["state"]["rollout"]["updates"] == 3
    keep = names["solved_but_not_always"]
    assert keep(Group(0, Task("t", "q"), 0, ())).reason == "unsolved"
    world = names["Counting"]()
    await world.restore(Task("t", "q"), {"count": 2})
    assert await world.snapshot() == {"count": 2}


def test_the_setup_names_what_there_is() -> None:
    (setup,) = blocks("python setup")
    from retrain.engine.sglang_engine import SGLangEngine

    assert SGLangEngine.__name__ in setup and SGLangEngine.__module__ in setup


def test_the_configuration_is_one(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    document = {
        "experiment_name": "page",
        "model": {"name_or_path": "none"},
        "environment": {"type": "calculator"},
        "prompt_source": {"type": "list", "source_config": {"items": ["q"]}},
        "algorithm": {"name": "grpo", "backend": "trl", "hyperparameters": {"num_iterations": 1}},
        **yaml.safe_load(text),
    }
    rollout = RunConfig.model_validate(document).rollout
    assert rollout.over_sampling_factor == 1.5 and rollout.filter is not None


def test_every_filter_and_every_metric_of_the_page_exists() -> None:
    named = set(re.findall(r"^\| `(check_\w+)`", TEXT, re.M))
    assert named == {name for name in FILTERS.names() if name.startswith("check_")}
    known = {metric.name for metric in METRICS}
    assert set(re.findall(r"`(rollout/[\w/]+)`", TEXT)) <= known
    given = filling_metrics(OverSampling(1, 2.0), Tally({"x": 1}, replaced=1), (), ())
    assert {name.replace("/x", "/REASON") for name in given} <= known
