"""What SGLang is sent of an episode with images, and that it then writes the same tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from seeing import requests_of
from seeing_server import SeeingServer

from retrain.compose import Composition, make_tasks
from retrain.engine.base import InferenceEngine
from retrain.engine.sglang_engine import SGLangEngine
from retrain.engine.transformers_engine import TransformersEngine
from retrain.engine.transformers_loading import load_engine
from retrain.types import Group, Trajectory


@pytest.fixture(scope="module")
def engine(composition: Composition) -> Iterator[TransformersEngine]:
    vision = composition.image_processor
    made = load_engine(composition.config.model, longest=400, most=4, vision=vision)
    yield made
    made.close()


@pytest.fixture
def server(vlm: Path, engine: TransformersEngine, tmp_path: Path) -> Iterator[SeeingServer]:
    made = SeeingServer(vlm, engine, tmp_path)
    yield made
    made.kill()


def played(composition: Composition, engine: InferenceEngine) -> list[Group]:
    requests = requests_of(make_tasks(composition.config))
    return list(asyncio.run(composition.rollouts(engine).collect(requests)))


def streams(groups: list[Group]) -> list[tuple[int, ...]]:
    episodes: list[Trajectory] = [t for group in groups for t in group.trajectories]
    assert not any(episode.error for episode in episodes)
    return [segment.ids for episode in episodes for segment in episode.segments]


def test_a_server_that_counts_as_we_do_writes_what_the_engine_writes(
    composition: Composition, engine: TransformersEngine, server: SeeingServer
) -> None:
    over_http = SGLangEngine(server.url, vision=composition.image_processor)
    assert over_http.capabilities.images
    assert streams(played(composition, over_http)) == streams(played(composition, engine))
    shown = [len(body.get("image_data", ())) for body in server.calls("/generate")]
    assert sorted(shown)[-4:] == [2, 2, 3, 3]
    assert sorted(shown)[:-4].count(1) == 2
    over_http.close()


def test_a_server_that_counts_otherwise_is_refused(
    composition: Composition, server: SeeingServer
) -> None:
    server.more = 1
    over_http = SGLangEngine(server.url, vision=composition.image_processor)
    with pytest.raises(Exception, match="prompt") as raised:
        played(composition, over_http)
    assert "tokens" in str(raised.value)
    over_http.close()


def test_without_an_image_processor_images_are_refused(
    composition: Composition, server: SeeingServer
) -> None:
    over_http = SGLangEngine(server.url)
    assert not over_http.capabilities.images
    with pytest.raises(Exception, match="this engine takes no images"):
        played(composition, over_http)
    over_http.close()
