"""Images through the episode loop: they stand where their placeholders stand, and nowhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from looking import Looking
from tiny_vlm import bytes_tokenizer

from bridges import DataFormatBridge, EnvironmentBridge
from bridges.data_format import rebuild
from bridges.limits import EpisodeLimits
from bridges.records import EpisodeRecord
from bridges.stream import EpisodeStream
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.base import Environment
from retrain.images import Image
from retrain.rendering import load_renderer
from retrain.rendering.renderer import DeltaRenderer
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Message,
    Observation,
    StepResult,
    Task,
    Trajectory,
    Turn,
)


class Three:
    """Every image takes three placeholders."""

    def __init__(self, placeholder_id: int) -> None:
        self.placeholder_id = placeholder_id

    def tokens(self, image: str) -> int:
        return 3

    def picture(self, image: str) -> Any:
        raise AssertionError("nobody looks at it")

    def model_inputs(self, images: Sequence[str]) -> Mapping[str, Any]:
        raise AssertionError("nobody computes it")


class Forgetting(Looking):
    """Puts one new message, with a picture of its own, in place of all that was said."""

    rewrites_history = True  # type: ignore[assignment]

    async def step(self, action: Action) -> StepResult:
        self._turns += 1
        if self._turns == 2:
            return StepResult(Observation(), terminated=True)
        afresh = Message("user", "Afresh.", images=(Image("new.png"),))
        return StepResult(Observation((afresh,), rewrite=True))


class Repeating(Environment):
    """Leaves the task's image to us, and repeats the whole conversation with every reply."""

    rewrites_history = True  # type: ignore[assignment]

    async def reset(self, task: Task, seed: int) -> Observation:
        self._said = [Message("user", str(task.prompt))]
        return Observation(tuple(self._said))

    async def step(self, action: Action) -> StepResult:
        if len(self._said) > 1:
            return StepResult(Observation(), terminated=True)
        picture = Message("user", "And now?", images=(Image("next.png"),))
        self._said += [action.message, picture]
        return StepResult(Observation(tuple(self._said), rewrite=True))


class Condensing(Repeating):
    """Puts a text in place of all that was said."""

    async def step(self, action: Action) -> StepResult:
        if not self._said:
            return StepResult(Observation(), terminated=True)
        self._said = []
        return StepResult(Observation((Message("user", "Afresh."),), rewrite=True))


@pytest.fixture(scope="module")
def renderer() -> DeltaRenderer:
    tokenizer = bytes_tokenizer()
    placeholder = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    return load_renderer(tokenizer, vision=Three(placeholder))


class Asked(ScriptedEngine):
    """Remembers the images of every request."""

    def __init__(self, stop: int) -> None:
        super().__init__(lambda *asked: [65, stop])
        self.shown: list[tuple[str, ...]] = []

    async def generate(self, *asked: Any, images: Sequence[str] | None = None, **how: Any) -> Any:
        self.shown.append(tuple(images or ()))
        return await super().generate(*asked, images=images, **how)


def played(
    renderer: DeltaRenderer, kind: type[Environment], most: int = 99
) -> tuple[Trajectory, Asked]:
    engine = Asked(min(renderer.stop_token_ids))
    bridge = EnvironmentBridge(renderer, kind, EpisodeLimits(most))
    task = Task("t", "What?", metadata={"next": "next.png"}, images=("first.png",))
    params = SamplingParams(max_tokens=4, stop_token_ids=renderer.stop_token_ids)
    seed = EpisodeSeed(1, "train", "t", 0, 0)
    episode = asyncio.run(bridge.run(task, engine=engine, params=params, seed=seed))
    assert episode.error is None
    return episode, engine


def check_stream(renderer: DeltaRenderer, episode: Trajectory) -> None:
    vision = renderer.image_processor
    assert vision is not None
    for segment in episode.segments:
        assert segment.ids.count(vision.placeholder_id) == 3 * len(segment.images)
    samples = DataFormatBridge(renderer).to_samples(episode)
    assert rebuild(samples).segments == episode.segments


def test_every_request_shows_all_images_so_far(renderer: DeltaRenderer) -> None:
    episode, engine = played(renderer, Looking)
    assert engine.shown == [("first.png",), ("first.png", "next.png")]
    (segment,) = episode.segments
    assert segment.images == ("first.png", "next.png")
    check_stream(renderer, episode)


def test_a_rewritten_history_shows_its_own_images(renderer: DeltaRenderer) -> None:
    episode, engine = played(renderer, Forgetting)
    assert engine.shown == [("first.png",), ("new.png",)]
    assert [segment.images for segment in episode.segments] == [("first.png",), ("new.png",)]
    check_stream(renderer, episode)


@pytest.mark.parametrize(
    ("kind", "segments"),
    [
        (Repeating, [("first.png", "next.png")]),
        (Condensing, [("first.png",), ("first.png",)]),
    ],
)
def test_a_rewritten_history_keeps_the_image_that_the_environment_leaves_to_us(
    renderer: DeltaRenderer, kind: type[Environment], segments: list[tuple[str, ...]]
) -> None:
    episode, engine = played(renderer, kind)
    assert engine.shown[0] == ("first.png",)
    assert engine.shown[1] == segments[-1]
    assert [segment.images for segment in episode.segments] == segments
    check_stream(renderer, episode)


def test_a_reply_that_does_not_fit_leaves_no_image_behind(renderer: DeltaRenderer) -> None:
    episode, _ = played(renderer, Looking, 8)
    (segment,) = episode.segments
    assert segment.images == ("first.png",)
    check_stream(renderer, episode)


def test_a_reply_that_nobody_answered_takes_its_images_with_it() -> None:
    stream = EpisodeStream()
    stream.begin([1, 9, 2], ("first.png",))
    stream.record(Turn((3,), (-1.0,), FinishReason.STOP, Action("x")))
    stream.append([9, 4], ("next.png",))
    assert stream.segments()[0].images == ("first.png",)
    (waiting,) = stream.so_far()
    assert waiting.images == ("first.png", "next.png")
    stream.record(Turn((5,), (-1.0,), FinishReason.STOP, Action("y")))
    assert stream.segments()[0].images == ("first.png", "next.png")


def test_a_record_for_a_restart_keeps_the_images(renderer: DeltaRenderer) -> None:
    episode, _ = played(renderer, Looking)
    said = ((Message("user", "What?", images=(Image("first.png"),)),),)
    record = EpisodeRecord(episode.segments, said=said)
    assert EpisodeRecord.of_json(json.loads(json.dumps(record.to_json()))) == record
