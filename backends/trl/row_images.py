"""`RowImages`: the images of rows, into the forwards that TRL makes of them.

TRL's own images come from the columns of its data set. Ours come with the rows that are collected,
in the prompt or behind it, so they are put in where TRL asks for logprobs: by row while a batch is
scored (old and reference logprobs), then with the batch, whose keys TRL shuffles and splits with it
(`split_pixel_values_by_grid` of `trl/trainer/utils.py`).

Suffixes: B rows, T padded length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from retrain.sample import Sample
from retrain.vision import VisionProcessor

_BY_IMAGE = ("pixel_values", "image_grid_thw", "num_images", "mm_token_type_ids")


class _Collected(Protocol):
    rows: list[Sample]


class RowImages:
    """Knows the images of the rows at hand."""

    def __init__(self, vision: VisionProcessor | None) -> None:
        """Take the model's image processor; None where it reads no images."""
        self._vision = vision
        self._collected: _Collected | None = None

    @contextmanager
    def of(self, collected: _Collected) -> Iterator[None]:
        """While entered, what is computed are the rows of `collected`, in order."""
        self._collected = collected
        try:
            yield
        finally:
            self._collected = None

    def compute(
        self, forward: Callable[..., Any], ids_BT: torch.Tensor, given: Mapping[str, Any]
    ) -> Any:
        """Compute the logprobs of rows, with their images.

        Args:
            forward: TRL's method over a slice of the rows, with further keyword arguments.
            ids_BT: The rows, padded.
            given: TRL's keyword arguments; those of a batch that `hand_over` completed hold its
                images.

        Returns:
            What TRL's method does: logprobs, entropies and auxiliary losses.
        """
        everything = slice(None)
        if self._vision is None:
            return forward(everything)
        if self._collected is None:
            shown = sum(given.get("num_images") or ())
            return forward(everything, **({} if shown else dict.fromkeys(_BY_IMAGE)))
        size = given.get("batch_size") or len(ids_BT)
        parts = [slice(start, start + size) for start in range(0, len(ids_BT), size)]
        computed = [
            forward(part, **self._inputs(self._collected.rows[part], ids_BT[part]))
            for part in parts
        ]
        return tuple(map(_joined, zip(*computed, strict=True)))

    def hand_over(self, batch: dict[str, Any], rows: Sequence[Sample]) -> None:
        """Put the images of rows into the batch that TRL trains on."""
        if any(map(images_of, rows)):
            ids_BT = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
            batch.update(self._inputs(rows, ids_BT))

    def _inputs(self, rows: Sequence[Sample], ids_BT: torch.Tensor) -> dict[str, Any]:
        images = [image for row in rows for image in images_of(row)]
        if self._vision is None or not images:
            return {}
        inputs = self._vision.model_inputs(images)
        return {
            **{name: value.to(ids_BT.device) for name, value in inputs.items()},
            "num_images": [len(images_of(row)) for row in rows],
            "mm_token_type_ids": (ids_BT == self._vision.placeholder_id).int(),
        }


def images_of(row: Sample) -> Sequence[str]:
    """The paths or URLs of what a row shows, in order."""
    images: Sequence[str] = (row.multimodal_inputs or {}).get("images", ())
    return images


def _joined(parts: tuple[Any, ...]) -> Any:
    """What several calls gave, row after row; None where none gave it."""
    if any(part is None for part in parts):
        return None
    return torch.cat(parts) if parts[0].dim() else torch.stack(parts).mean()
