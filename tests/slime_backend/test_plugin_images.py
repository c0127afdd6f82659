"""Images on slime's samples: in the fields, and with the values, that slime's own rollout gives."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL", reason="needs Pillow: pip install 'retrain[images]'")
pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")

import torch
from slime_source import importable_slime
from tiny_vlm import make_tiny_vlm, save_pictures

from backends.slime.samples import fill, ours
from backends.slime.stand_ins import Sample as StandIn
from bridges import DataFormatBridge
from bridges.data_format import rebuild
from retrain.engine.sglang_protocol import png_uri
from retrain.engine.transformers_vision import GridVision
from retrain.errors import BackendFailure
from retrain.images import Image
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import (
    Action,
    FinishReason,
    Message,
    Segment,
    StopReason,
    Task,
    Trajectory,
    Turn,
)
from retrain.vision import ImageLimits

QUESTION = "What is this?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("images")
    make_tiny_vlm(made / "model")
    save_pictures(made)
    return made


@pytest.fixture(scope="module")
def image_processor(folder: Path) -> Any:
    """By its own name: the automatic class of older releases of transformers needs torchvision."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
        Qwen2VLImageProcessorPil,
    )

    return Qwen2VLImageProcessorPil.from_pretrained(folder / "model")


@pytest.fixture(scope="module")
def renderer(folder: Path, image_processor: Any) -> DeltaRenderer:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")  # type: ignore[no-untyped-call]
    placeholder = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    return load_renderer(tokenizer, vision=GridVision(image_processor, placeholder, ImageLimits()))


def pictures_of(folder: Path) -> tuple[str, str]:
    return str(folder / "noisy.png"), str(folder / "red.png")


def episode(renderer: DeltaRenderer, prompt: Message, reply: Message) -> Trajectory:
    """Two turns, with `reply` between them."""
    stop = min(renderer.stop_token_ids)
    first, second = (65, 66, stop), (67, stop)
    action = Action("AB")
    env = renderer.delta(action, [reply], stop)
    turns = (
        Turn(first, (-1.0, -2.0, -3.0), FinishReason.STOP, action, env_ids=tuple(env)),
        Turn(second, (-0.5, -0.25), FinishReason.STOP, Action("C")),
    )
    images = tuple(image.source for message in (prompt, reply) for image in message.images)
    segment = Segment(tuple(renderer.first([prompt])), turns, images)
    seed = EpisodeSeed(1, "train", "t", 0, 0)
    return Trajectory(
        Task("t", (prompt,)), seed, (segment,), Status.COMPLETED, StopReason.TERMINATED, reward=1.0
    )


def shown(text: str, *paths: str) -> Message:
    return Message("user", text, images=tuple(map(Image, paths)))


def filled(renderer: DeltaRenderer, played: Trajectory, target: Any) -> Any:
    samples = DataFormatBridge(renderer).to_samples(played)
    return fill(target, samples, (), Namespace(), renderer.image_processor)


def test_the_images_of_all_turns_stand_on_the_sample(renderer: DeltaRenderer, folder: Path) -> None:
    noisy, red = pictures_of(folder)
    played = episode(renderer, shown(QUESTION, noisy), shown("And now?", red))
    target = filled(renderer, played, StandIn())
    assert [picture.size for picture in target.multimodal_inputs["images"]] == [(96, 64)] * 2
    assert target.multimodal_inputs["videos"] is None
    given = target.multimodal_train_inputs
    assert given["image_grid_thw"].tolist() == [[1, 4, 6], [1, 4, 6]]
    assert given["pixel_values"].shape[0] == 48
    vision = renderer.image_processor
    assert vision is not None
    assert target.tokens.count(vision.placeholder_id) == 12
    at = [i for i, m in zip(target.tokens[-len(target.loss_mask) :], target.loss_mask) if m]  # noqa: B905
    assert vision.placeholder_id not in at
    assert rebuild([ours(target)]).segments == played.segments


def test_a_sample_without_images_says_so(renderer: DeltaRenderer, folder: Path) -> None:
    noisy, red = pictures_of(folder)
    target = filled(renderer, episode(renderer, shown("a", noisy), shown("b", red)), StandIn())
    again = filled(renderer, episode(renderer, shown("a"), shown("b")), target)
    assert again.multimodal_inputs is again.multimodal_train_inputs is None
    assert ours(again).multimodal_inputs is None


def test_images_without_an_image_processor_are_no_silent_loss(
    renderer: DeltaRenderer, folder: Path
) -> None:
    played = episode(renderer, shown(QUESTION, pictures_of(folder)[0]), shown("b"))
    samples = DataFormatBridge(renderer).to_samples(played)
    with pytest.raises(BackendFailure, match="image processor is not loaded"):
        fill(StandIn(), samples, (), Namespace(), None)


@pytest.fixture
def slimes() -> Iterator[None]:
    with importable_slime():
        yield


@pytest.mark.slime
def test_it_is_what_slimes_own_rollout_fills_and_sends(
    slimes: None, renderer: DeltaRenderer, folder: Path, image_processor: Any
) -> None:
    """slime's functions on the same prompt, with pictures that it resizes and that it does not."""
    from slime.rollout.sglang_rollout import _prepare_prompt_ids
    from slime.utils.processing_utils import encode_image_for_rollout_engine, process_vision_info
    from slime.utils.types import Sample

    paths = pictures_of(folder)
    processor = whole_processor(renderer._tokenizer, image_processor)
    messages = [
        {
            "role": "user",
            "content": [
                *({"type": "image", "image": path} for path in paths),
                {"type": "text", "text": QUESTION},
            ],
        }
    ]
    text = renderer._tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    theirs = Sample(prompt=text, multimodal_inputs=process_vision_info(messages, processor))
    ids = _prepare_prompt_ids(theirs, renderer._tokenizer, processor)

    mine = filled(renderer, episode(renderer, shown(QUESTION, *paths), shown("Go.")), Sample())
    assert mine.tokens[: len(ids)] == list(ids)
    assert mine.multimodal_inputs.keys() == theirs.multimodal_inputs.keys()
    for own, slime in zip(
        mine.multimodal_inputs["images"], theirs.multimodal_inputs["images"], strict=True
    ):
        # Where qwen_vl_utils cannot be imported, slime leaves the resizing to the processor.
        sized = slime.resize(own.size, resample=image_processor.resample)
        assert png_uri(own) == encode_image_for_rollout_engine(sized)
    assert mine.multimodal_train_inputs.keys() == theirs.multimodal_train_inputs.keys()
    for name, value in theirs.multimodal_train_inputs.items():
        assert torch.equal(mine.multimodal_train_inputs[name], value)


def whole_processor(tokenizer: Any, image_processor: Any) -> Any:
    """Qwen3-VL's processor; that of videos, which needs torchvision, is left out."""
    from transformers import Qwen3VLProcessor

    class NoVideos:
        merge_size = temporal_patch_size = 2

    class Processor(Qwen3VLProcessor):
        def check_argument_for_proper_class(self, name: str, value: Any) -> Any:
            return type(value)

    return Processor(image_processor, tokenizer, NoVideos(), chat_template=tokenizer.chat_template)
