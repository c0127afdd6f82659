"""`GridVision`: the image processors of transformers that cut an image into a grid of patches.

That is how Qwen's (2-VL, 2.5-VL, 3-VL and later) and GLM's (4V and later) models see: the processor
gives `pixel_values`, one row for each patch, and `image_grid_thw`, the patches of each image in
time, height and width; `merge_size` squared patches make one placeholder token. Source:
`processing_qwen2_vl.py` of transformers, `replace_image_token`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoImageProcessor

from retrain.config import ModelConfig
from retrain.errors import DataError
from retrain.vision.base import NoVision, Vision
from retrain.vision.reading import ImageLimits, read_picture

_KEPT = 32
"""Processed images that are kept: a group's members ask for the same one at the same time."""
_UNREADABLE = (OSError, ValueError, KeyError, ImportError, AttributeError)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A processed image; P patches of D numbers."""

    picture: Any
    pixels_PD: torch.Tensor
    grid_thw: torch.Tensor


class GridVision:
    """A `VisionProcessor` over an image processor that gives `image_grid_thw`.

    An image is resized once, to the size that the processor would choose, and everything goes by
    that picture: the in-process engine, a server that is sent it, and the trainer.
    """

    def __init__(self, processor: Any, placeholder_id: int, limits: ImageLimits) -> None:
        """Take an image processor.

        Args:
            processor: Of transformers, with `patch_size` and `merge_size`.
            placeholder_id: The model's `image_token_id`.
            limits: What images may be.
        """
        self._processor = processor
        self._placeholder_id = placeholder_id
        self._limits = limits
        self._tokens: dict[str, int] = {}
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def placeholder_id(self) -> int:
        """The token that stands for a part of an image."""
        return self._placeholder_id

    def tokens(self, image: str) -> int:
        """How many placeholders an image takes: its patches / `merge_size` squared."""
        if image not in self._tokens:
            patches = int(self._look(image).grid_thw.prod())
            self._tokens[image] = patches // self._processor.merge_size**2
        return self._tokens[image]

    def picture(self, image: str) -> Any:
        """The image as the model sees it, in RGB."""
        return self._look(image).picture

    def model_inputs(self, images: Sequence[str]) -> Mapping[str, torch.Tensor]:
        """`pixel_values` [patches of all images, D] and `image_grid_thw` [images, 3]."""
        seen = [self._look(image) for image in images]
        return {
            "pixel_values": torch.cat([one.pixels_PD for one in seen]),
            "image_grid_thw": torch.cat([one.grid_thw for one in seen]),
        }

    def save(self, folder: Path) -> None:
        """Write the image processor's configuration into a model's folder."""
        self._processor.save_pretrained(folder)

    def _look(self, image: str) -> _Seen:
        with self._lock:
            if image not in self._seen:
                self._seen[image] = self._process(image)
                while len(self._seen) > _KEPT:
                    self._seen.popitem(last=False)
            self._seen.move_to_end(image)
            return self._seen[image]

    def _process(self, image: str) -> _Seen:
        picture = read_picture(image, self._limits)
        pixels_PD, grid_thw = self._processed(image, picture)
        _, rows, columns = grid_thw[0].tolist()
        size = (columns * self._processor.patch_size, rows * self._processor.patch_size)
        if picture.size != size:
            picture = picture.resize(size, resample=self._processor.resample)
            pixels_PD, again = self._processed(image, picture)
            if not torch.equal(again, grid_thw):
                raise DataError(f"{image}: the image processor resizes what it has resized")
        return _Seen(picture, pixels_PD, grid_thw)

    def _processed(self, image: str, picture: Any) -> tuple[torch.Tensor, torch.Tensor]:
        try:
            given = self._processor(images=[picture], return_tensors="pt")
        except ValueError as error:
            raise DataError(f"{image}: the image processor refuses it ({error})") from error
        return given["pixel_values"], given["image_grid_thw"]


def load_vision(model: ModelConfig, limits: ImageLimits, folder: str | None = None) -> Vision:
    """Load the image processor of `model:`.

    Args:
        model: The section.
        limits: What images may be.
        folder: Another folder of the same model.

    Returns:
        It, or why there is none that can be used.
    """
    name = folder or model.name_or_path
    options: dict[str, Any] = {"trust_remote_code": model.trust_remote_code}
    options |= {"revision": model.revision} if folder is None else {}
    try:
        config = AutoConfig.from_pretrained(name, **options)
        automatic: Any = AutoImageProcessor
        processor = automatic.from_pretrained(name, **options)
    except _UNREADABLE as error:
        return NoVision(f"the image processor of {name!r} cannot be loaded ({_first_line(error)})")
    placeholder = getattr(config, "image_token_id", None)
    if not _cuts_grids(processor) or placeholder is None:
        return NoVision(
            f"{type(processor).__name__} of {name!r} gives no image_grid_thw, and retrain knows no "
            "other way to count an image's tokens; the VL models of Qwen and GLM can be used"
        )
    return GridVision(processor, int(placeholder), limits)


def copy_image_processor(model: ModelConfig, folder: Path) -> None:
    """Put the model's image processor beside its trained weights, where it has one.

    Args:
        model: What the weights began from.
        folder: Where they stand.
    """
    vision = load_vision(model, ImageLimits())
    if isinstance(vision, GridVision):
        vision.save(folder)


def _cuts_grids(processor: Any) -> bool:
    sizes = all(isinstance(getattr(processor, n, None), int) for n in ("patch_size", "merge_size"))
    return sizes and "image_grid_thw" in getattr(processor, "model_input_names", ())


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
