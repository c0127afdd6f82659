"""The in-process engine with images, held against the model's own forward."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from seeing import items_of, requests_of, see_config
from tiny_vlm import make_tiny_vlm

from bridges.data_format import rebuild
from retrain.compose import Composition, compose, make_tasks
from retrain.engine.transformers_loading import load_engine, load_model
from retrain.errors import RenderingFailure
from retrain.sample import Sample
from retrain.types import Group
from retrain.vision import VisionProcessor
from retrain.vision.base import refuse_forged


@pytest.fixture(scope="module")
def groups(composition: Composition) -> list[Group]:
    return played(composition)


def played(composition: Composition) -> list[Group]:
    """The groups of all tasks, as the in-process engine writes them."""
    config = composition.config
    vision = composition.image_processor
    engine = load_engine(config.model, longest=400, most=4, vision=vision)
    try:
        requests = requests_of(make_tasks(config))
        return list(asyncio.run(composition.rollouts(engine).collect(requests)))
    finally:
        engine.close()


def samples_of(composition: Composition, groups: list[Group]) -> list[Sample]:
    slots = (slot for g in groups for slot in composition.data_format.group_samples(g))
    return [sample for slot in slots for sample in slot]


def plain_logprobs(model: Any, sample: Sample, vision: VisionProcessor) -> list[float]:
    """[R] what one whole forward gives for the response."""
    ids = torch.tensor([sample.tokens])
    images = (sample.multimodal_inputs or {}).get("images")
    given = vision.model_inputs(images) if images else {}
    if images:
        given = {**given, "mm_token_type_ids": (ids == vision.placeholder_id).int()}
    with torch.no_grad():
        logprobs = model(input_ids=ids, **given).logits[0].log_softmax(-1)
    start = len(sample.tokens) - sample.response_length
    return [float(logprobs[start + at - 1, i]) for at, i in enumerate(sample.response_ids)]


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen2_5_vl"])
def test_the_engine_gives_what_other_models_that_see_give(
    tmp_path: Path, pictures: tuple[str, str], kind: str
) -> None:
    model = make_tiny_vlm(tmp_path / "model", kind)
    composition = compose(see_config(model, tmp_path / "run", items_of(*pictures)))
    assert_exact(composition, played(composition))


def test_what_the_engine_gives_is_what_a_whole_forward_gives(
    composition: Composition, groups: list[Group]
) -> None:
    assert_exact(composition, groups)


def assert_exact(composition: Composition, groups: list[Group]) -> None:
    """Compare the logprobs of all episodes with those of one whole forward each."""
    vision = composition.image_processor
    assert vision is not None
    model = load_model(composition.config.model)
    for sample in samples_of(composition, groups):
        plain = plain_logprobs(model, sample, vision)
        rows = zip(plain, sample.rollout_log_probs, sample.loss_mask, strict=True)
        gaps = [abs(own - engines) for own, engines, trained in rows if trained]
        assert len(gaps) == 10
        assert max(gaps) < 1e-4


def test_without_its_images_the_model_writes_otherwise(
    composition: Composition, groups: list[Group], pictures: tuple[str, str]
) -> None:
    """The comparison above could not fail if the images had no weight."""
    vision = composition.image_processor
    assert vision is not None
    model = load_model(composition.config.model)
    sample = samples_of(composition, groups)[0]
    noisy, red = pictures
    inputs = dict(vision.model_inputs([noisy, red, red]))
    inputs["pixel_values"] = inputs["pixel_values"].flip(0)
    ids = torch.tensor([sample.tokens])
    kinds = (ids == vision.placeholder_id).int()
    with torch.no_grad():
        logits = model(input_ids=ids, mm_token_type_ids=kinds, **inputs).logits[0].log_softmax(-1)
    start = len(sample.tokens) - sample.response_length
    seen = [float(logits[start + at - 1, i]) for at, i in enumerate(sample.response_ids)]
    plain = plain_logprobs(model, sample, vision)
    assert max(abs(a - b) for a, b in zip(seen, plain, strict=True)) > 1e-3


def test_placeholders_are_in_the_tokens_and_never_trained(
    composition: Composition, groups: list[Group], pictures: tuple[str, str]
) -> None:
    vision = composition.image_processor
    assert vision is not None
    noisy, red = pictures
    shown = {"two": [noisy, red, red], "later": [noisy], "text": None}
    for group in groups:
        for sample in samples_of(composition, [group]):
            images = shown[group.task.id]
            assert sample.multimodal_inputs == ({"images": images} if images else None)
            expected = sum(map(vision.tokens, images or []))
            assert sample.tokens.count(vision.placeholder_id) == expected
            pairs = zip(sample.response_ids, sample.loss_mask, strict=True)
            assert not any(m for i, m in pairs if i == vision.placeholder_id)


def test_samples_give_the_episode_back_and_hold_no_pixels(
    composition: Composition, groups: list[Group]
) -> None:
    for group in groups:
        for episode in group.trajectories:
            (sample,) = composition.data_format.to_samples(episode)
            assert rebuild([sample]).segments == episode.segments
            assert len(json.dumps(sample.metadata)) < 20_000


def test_the_stream_is_what_the_models_own_processor_counts(
    composition: Composition, pictures: tuple[str, str]
) -> None:
    """Patches are counted as `Qwen2VLProcessor.replace_image_token` counts them."""
    from PIL import Image
    from transformers import AutoImageProcessor

    vision = composition.image_processor
    assert vision is not None
    own = AutoImageProcessor.from_pretrained(composition.config.model.name_or_path)
    for path in pictures:
        given = own(images=[Image.open(path).convert("RGB")], return_tensors="pt")
        assert vision.tokens(path) == int(given["image_grid_thw"].prod()) // own.merge_size**2
        mine = vision.model_inputs([path])
        assert torch.equal(mine["image_grid_thw"], given["image_grid_thw"])
        assert torch.allclose(mine["pixel_values"], given["pixel_values"], atol=0.02)


def test_a_sampled_placeholder_is_refused(composition: Composition) -> None:
    vision = composition.image_processor
    assert vision is not None
    refuse_forged([1, 2], vision)
    with pytest.raises(RenderingFailure, match="stands for a part of an image"):
        refuse_forged([1, vision.placeholder_id], vision)
