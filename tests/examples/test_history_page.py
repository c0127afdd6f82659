"""The environment of docs/history.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from real_tokenizers import qwen_tokenizer

from bridges import DataFormatBridge, EnvironmentBridge, EpisodeLimits
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment import adapt
from retrain.rendering import load_renderer
from retrain.report.episode_view import render_episode
from retrain.seeds import EpisodeSeed
from retrain.types import Task

PAGE = Path(__file__).parents[2] / "docs" / "history.md"


def environment() -> Any:
    """The class of the page's only block of Python."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    return names["Compacting"]


@pytest.mark.parametrize("history", ["keep", "template"])
async def test_the_page_s_environment_makes_three_segments(
    pytestconfig: pytest.Config, history: Any
) -> None:
    tokenizer = qwen_tokenizer(pytestconfig.cache.mkdir("tokenizers"))
    renderer = load_renderer(tokenizer, history=history)
    texts = ["six", "seven", "six times seven", "forty-two", "42"]
    turns = [tokenizer.encode(f"{t}<|im_end|>", add_special_tokens=False) for t in texts]
    bridge = EnvironmentBridge(renderer, lambda: adapt(environment()()), EpisodeLimits(500))
    trajectory = await bridge.run(
        Task("t", "What is six times seven?"),
        engine=ScriptedEngine(turns),
        params=SamplingParams(max_tokens=100),
        seed=EpisodeSeed(0, "train", "t", 0, 0),
    )
    assert [len(segment.turns) for segment in trajectory.segments] == [2, 2, 1]
    assert trajectory.turns[-1].reward == 1.0
    last = tokenizer.decode(trajectory.segments[2].prompt_ids)
    assert "Your notes: six; seven; six times seven; forty-two" in last
    samples = DataFormatBridge(renderer).to_samples(trajectory)
    assert DataFormatBridge(renderer).to_trajectory(samples) == trajectory
    shown = render_episode(trajectory, renderer.decode, plain=True).plain
    assert "-- segment 2 of 3 --" in shown and "-- segment 3 of 3 --" in shown
