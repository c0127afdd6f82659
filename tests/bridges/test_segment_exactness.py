"""Random conversations, rewritten at random points: segments are what the engine saw."""

from __future__ import annotations

import json
import random
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter
from random_episodes import RandomModel
from real_tokenizers import chat_template, llama3_tokenizer, qwen_tokenizer
from rewriting_worlds import SYSTEM, RandomRewriter, trained_tokens

from bridges import DataFormatBridge, EnvironmentBridge, EpisodeLimits
from retrain.engine.base import SamplingParams
from retrain.rendering import load_renderer
from retrain.rendering.conversation import conversation
from retrain.sample import Sample, Status
from retrain.seeds import EpisodeSeed
from retrain.types import Task

EPISODES = 60
"""Episodes per template and mode: 480 in all."""
PROMPT = "What is next?"
TEMPLATES = {"qwen2_5": "qwen", "qwen3": "qwen", "llama3_1": "llama", "llama3": "llama"}
SAMPLES = TypeAdapter(list[Sample])


@pytest.fixture(scope="module", params=TEMPLATES)
def tokenizer(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Any:
    build = {"qwen": qwen_tokenizer, "llama": llama3_tokenizer}[TEMPLATES[request.param]]
    made = build(pytestconfig.cache.mkdir("tokenizers"))
    made.chat_template = chat_template(request.param)
    return made


class Thinker(RandomModel):
    """Thinks before some of its turns, in one of two spellings."""

    def _turn(self) -> list[int]:
        turn = super()._turn()
        if self._rng.random() < 0.6:
            return turn
        thought = self._rng.choice(("<think>\nhm\n</think>\n\n", "<think>so</think>"))
        return self._odd(thought) + turn


class Episode:
    """One random episode, with everything that was asked and said."""

    def __init__(self, renderer: Any, tokenizer: Any, number: int) -> None:
        self.rng = random.Random(number)
        tools = number % 2 == 0 and renderer.check_report["tools in the prompt"] is None
        self.renderer = renderer
        self.world = RandomRewriter(self.rng, tools=tools)
        self.engine = Thinker(renderer, tokenizer, self.rng)
        self.limits = EpisodeLimits(
            max_response_len=self.rng.choice((60, 400)),
            max_tokens_per_turn=self.rng.choice((None, 8)),
            max_context_len=self.rng.choice((None, 200)),
            max_turns=8,
        )
        self.task = Task(f"t{number}", PROMPT)

    async def play(self) -> Any:
        bridge = EnvironmentBridge(self.renderer, lambda: self.world, self.limits)
        return await bridge.run(
            self.task,
            engine=self.engine,
            params=SamplingParams(max_tokens=400),
            seed=EpisodeSeed(0, "train", self.task.id, 0, 0),
        )


@pytest.mark.parametrize("history", ["keep", "template"])
async def test_segments_are_what_the_engine_saw(tokenizer: Any, history: str) -> None:
    renderer = load_renderer(tokenizer, history=history)  # type: ignore[arg-type]
    data_format = DataFormatBridge(renderer)
    rewritten = failed = 0
    for number in range(EPISODES):
        episode = Episode(renderer, tokenizer, number)
        trajectory = replace(await episode.play(), reward=1.0, index=number, group_index=0)
        check_segments(trajectory, episode)
        samples = data_format.to_samples(trajectory, advantage=0.5)
        check_trained_once(trajectory, samples)
        written = json.loads(json.dumps(SAMPLES.dump_python(samples, mode="json")))
        assert data_format.to_trajectory(SAMPLES.validate_python(written)) == trajectory
        check_limits(trajectory, episode.limits)
        check = check_rewrites if history == "keep" else check_template
        check(trajectory, episode, tokenizer)
        rewritten += len(trajectory.segments) > 1
        failed += trajectory.status is Status.FAILED
    assert rewritten > EPISODES / 4
    assert 0 < failed < EPISODES / 2


def check_segments(trajectory: Any, episode: Episode) -> None:
    """Every turn was asked for with the segment's stream so far, and is in one segment."""
    inputs = iter(episode.engine.inputs)
    for segment in trajectory.segments:
        stream = list(segment.prompt_ids)
        assert segment.turns and segment.turns[-1].env_ids == ()
        for turn in segment.turns:
            assert next(inputs) == stream
            stream += [*turn.output_ids, *turn.env_ids]
        assert stream == list(segment.ids)
    outputs = [tuple(generation.output_ids) for generation in episode.engine.outputs]
    assert [turn.output_ids for turn in trajectory.turns] == outputs
    assert next(inputs, None) is None


def check_trained_once(trajectory: Any, samples: list[Sample]) -> None:
    """Each sampled token once, in order, with its logprob; nothing of a failed episode."""
    turns = trajectory.turns if trajectory.valid else ()
    assert trained_tokens(samples) == [i for turn in turns for i in turn.output_ids]
    logprobs = [
        value
        for sample in samples
        for value, trained in zip(sample.rollout_log_probs, sample.loss_mask, strict=True)
        if trained
    ]
    assert logprobs == [value for turn in turns for value in turn.output_logprobs]
    assert len({sample.rollout_id for sample in samples}) == 1


def check_limits(trajectory: Any, limits: EpisodeLimits) -> None:
    """The response is bounded over the episode, the context in each segment."""
    assert sum(len(s.response_ids) for s in trajectory.segments) <= limits.max_response_len
    for segment in trajectory.segments:
        assert len(segment.ids) <= (limits.max_context_len or len(segment.ids))


def check_rewrites(trajectory: Any, episode: Episode, tokenizer: Any) -> None:
    """A segment begins exactly where the world rewrote what was said."""
    kinds = iter(episode.world.kinds)
    for number, segment in enumerate(trajectory.segments):
        inside = [next(kinds) for _ in segment.turns[:-1]]
        assert set(inside) <= {"reply", "repeat"}
        if number + 1 < len(trajectory.segments):
            assert next(kinds) in ("compact", "branch")


def check_template(trajectory: Any, episode: Episode, tokenizer: Any) -> None:
    """Every prompt is, as text, what the template writes of the whole conversation.

    It continues the stream wherever that is possible.
    """
    said = [SYSTEM, *episode.task.messages]
    observations = [None, *episode.world.observations]
    for position, prompt in enumerate(episode.engine.inputs):
        if position:
            observation = observations[position]
            turn = trajectory.turns[position - 1]
            own = episode.renderer.message(turn.action, turn.output_ids)
            new = list(observation.messages)
            said = new if observation.rewrite else [*said, own, *new]
        text = tokenizer.apply_chat_template(
            conversation(said),
            tools=list(episode.world.tools) or None,
            tokenize=False,
            add_generation_prompt=True,
        )
        assert normal(tokenizer.decode(prompt)) == normal(text)
        if position:
            before = [*episode.engine.inputs[position - 1], *turn.output_ids]
            continued, readable = prompt[: len(before)] == before, tokenizer.decode(before)
            sampled = controls(tokenizer, before)
            spelled = sampled != controls(tokenizer, prompt)[: len(sampled)]
            assert continued or spelled or "\ufffd" in readable or not text.startswith(readable)


def controls(tokenizer: Any, ids: list[int]) -> list[int]:
    """The control tokens among ids; a model may also spell one in characters."""
    return [index for index in ids if index in tokenizer.added_tokens_decoder]


def normal(text: str) -> str:
    return unicodedata.normalize("NFC", text)
