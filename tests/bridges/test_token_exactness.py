"""The heart: over random episodes on real vocabularies, the Samples are what the engine saw."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from random_episodes import RandomModel, RandomWorld, tamed
from real_tokenizers import chat_template, llama3_tokenizer, qwen_tokenizer

from bridges import DataFormatBridge, EnvironmentBridge, EpisodeLimits
from retrain.engine.base import SamplingParams
from retrain.rendering import load_renderer
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Task

EPISODES = 120
"""Episodes per template: 480 in all."""

TEMPLATES = {"qwen2_5": "qwen", "qwen3": "qwen", "llama3_1": "llama", "llama3": "llama"}


@pytest.fixture(scope="module", params=TEMPLATES)
def model(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> tuple[Any, Any]:
    build = {"qwen": qwen_tokenizer, "llama": llama3_tokenizer}[TEMPLATES[request.param]]
    tokenizer = build(pytestconfig.cache.mkdir("tokenizers"))
    tokenizer.chat_template = chat_template(request.param)
    return load_renderer(tokenizer), tokenizer


def controls(tokenizer: Any, ids: Any) -> list[int]:
    return [i for i in ids if i in tokenizer.added_tokens_decoder]


async def test_random_episodes_are_token_exact(model: tuple[Any, Any]) -> None:
    renderer, tokenizer = model
    turns, replies = 0, 0
    for number in range(EPISODES):
        rng = random.Random(number)
        tools = number % 2 == 0 and renderer.check_report["tools in the prompt"] is None
        world = RandomWorld(rng, tools=tools)
        engine = RandomModel(renderer, tokenizer, rng)
        limits = EpisodeLimits(
            max_response_len=rng.choice((40, 400)),
            max_tokens_per_turn=rng.choice((None, 8)),
            max_turns=6,
        )
        bridge = EnvironmentBridge(renderer, lambda world=world: world, limits)
        trajectory = await bridge.run(
            Task(f"t{number}", f"Question {number}?"),
            engine=engine,
            params=SamplingParams(max_tokens=400),
            seed=EpisodeSeed(0, "train", f"t{number}", 0, 0),
        )
        assert trajectory.status in (Status.COMPLETED, Status.TRUNCATED), trajectory.error
        scored = replace(trajectory, reward=1.0)
        (sample,) = DataFormatBridge(renderer).to_samples(scored, advantage=0.5)
        check_stream(sample, engine)
        check_mask(sample, engine)
        check_replies(renderer, tokenizer, trajectory, world)
        turns, replies = turns + len(trajectory.turns), replies + len(world.replies)
    assert turns > 2 * EPISODES
    assert replies > EPISODES


def check_stream(sample: Any, engine: RandomModel) -> None:
    """Tokens are the engine's last input and output, and every input extends the one before."""
    assert sample.tokens == engine.inputs[-1] + list(engine.outputs[-1].output_ids)
    for (earlier, output), (later, _) in pairwise(zip(engine.inputs, engine.outputs, strict=True)):
        written = earlier + list(output.output_ids)
        assert later[: len(written)] == written


def check_mask(sample: Any, engine: RandomModel) -> None:
    """Mask and logprobs stand exactly where the engine wrote."""
    prompt = len(sample.prompt_ids)
    mask, logprobs = [0] * sample.response_length, [0.0] * sample.response_length
    for seen, output in zip(engine.inputs, engine.outputs, strict=True):
        at = len(seen) - prompt
        mask[at : at + len(output.output_ids)] = [1] * len(output.output_ids)
        logprobs[at : at + len(output.logprobs)] = output.logprobs
    assert sample.loss_mask == mask
    assert sample.rollout_log_probs == logprobs


def check_replies(renderer: Any, tokenizer: Any, trajectory: Any, world: RandomWorld) -> None:
    """What the world said stands in the stream as text, whatever control tokens it forged."""
    for turn, (action, messages) in zip(trajectory.turns, world.replies, strict=False):
        if not turn.env_ids:
            continue
        text = tokenizer.decode(turn.env_ids, clean_up_tokenization_spaces=False)
        for message in messages:
            written = json.dumps(message.content, ensure_ascii=False)[1:-1]
            assert message.content in text or written in text, "as it is, or as a JSON string"
        clean = renderer.delta(action, tamed(messages), turn.output_ids[-1], world.tools)
        assert controls(tokenizer, turn.env_ids) == controls(tokenizer, clean)
