"""Images on slime's samples, in the fields and the form that slime's own rollout gives them.

Source: slime 0.3.1, `slime/rollout/sglang_rollout.py` (`_prepare_prompt_ids`) and
`slime/utils/processing_utils.py` (`process_vision_info`).
"""

from __future__ import annotations

from typing import Any

from bridges.data_format import KEY
from retrain.errors import BackendFailure
from retrain.sample import Sample
from retrain.vision import VisionProcessor


def show_images(target: Any, sample: Sample, vision: VisionProcessor | None) -> None:
    """Write a sample's images into slime's.

    `multimodal_inputs` gets the pictures, in the size in which the model sees them;
    `multimodal_train_inputs` what Megatron's forward takes: `pixel_values` [patches, D] and
    `image_grid_thw` [images, 3], those of all turns together.

    Args:
        target: Slime's sample.
        sample: Ours.
        vision: The model's image processor.

    Raises:
        BackendFailure: There are images and no image processor.
    """
    images = (sample.multimodal_inputs or {}).get("images")
    target.multimodal_inputs = target.multimodal_train_inputs = None
    if not images:
        return
    if vision is None:
        raise BackendFailure("a sample shows images, and the model's image processor is not loaded")
    pictures = [vision.picture(image) for image in images]
    target.multimodal_inputs = {"images": pictures, "videos": None}
    target.multimodal_train_inputs = dict(vision.model_inputs(images))


def images_of_notes(sample: Any) -> dict[str, Any] | None:
    """A slime sample's images by path or URL, as ours has them; None where it shows none."""
    notes = (sample.metadata or {}).get(KEY) or {}
    images = notes.get("images") if isinstance(notes, dict) else None
    return {"images": list(images)} if images else None
