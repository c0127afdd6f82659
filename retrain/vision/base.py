"""`VisionProcessor`: how many tokens an image takes, and what the model is given for it.

The chat template writes one placeholder token for each image, and the model reads one for each of
its patches. The stream holds the latter: it is what the model computes and what is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from retrain.errors import DataError, RenderingFailure
from retrain.types import Message


class VisionProcessor(Protocol):
    """The image processor of a model. An image is given by its path or URL."""

    @property
    def placeholder_id(self) -> int:
        """The token that stands for a part of an image."""
        ...

    def tokens(self, image: str) -> int:
        """How many placeholders an image takes.

        Raises:
            DataError: It cannot be read, or is larger than allowed.
        """
        ...

    def picture(self, image: str) -> Any:
        """The image as the model sees it: an RGB picture of Pillow in its final size."""
        ...

    def model_inputs(self, images: Sequence[str]) -> Mapping[str, Any]:
        """What the model's forward takes for images, in their order: tensors by name."""
        ...


@dataclass(frozen=True, slots=True)
class NoVision:
    """A model that can be shown no images.

    Attributes:
        reason: Why, and what to do.
    """

    reason: str


Vision: TypeAlias = VisionProcessor | NoVision

NO_PROCESSOR = NoVision("no image processor was loaded beside the tokenizer")


def shown_images(messages: Sequence[Message], vision: Vision) -> list[str]:
    """The images of messages, in their order.

    Raises:
        RenderingFailure: There are some, and the model can be shown none.
    """
    images = [image.source for message in messages for image in message.images]
    if images and isinstance(vision, NoVision):
        raise RenderingFailure(f"a message shows an image, and {vision.reason}")
    return images


def with_images(ids: list[int], images: Sequence[str], vision: Vision) -> list[int]:
    """Rendered ids with the placeholders that their images take; see `expand`.

    Raises:
        RenderingFailure: The template shows other images, or one cannot be read.
    """
    if isinstance(vision, NoVision):
        return ids
    try:
        return expand(ids, images, vision)
    except DataError as error:
        raise RenderingFailure(str(error)) from error


def expand(ids: Sequence[int], images: Sequence[str], vision: VisionProcessor) -> list[int]:
    """Put as many placeholders as each image takes in place of the template's one.

    Args:
        ids: Rendered ids, one placeholder for each image.
        images: The images, in their order.
        vision: Counts.

    Raises:
        RenderingFailure: The template wrote another number of placeholders than there are images.
        DataError: An image cannot be read.
    """
    found = sum(index == vision.placeholder_id for index in ids)
    if found != len(images):
        raise RenderingFailure(
            f"the rendered messages hold {found} image placeholders for {len(images)} images: the "
            "chat template shows no images in one of these roles, or a text holds the "
            "placeholder's own token"
        )
    rest = iter(images)
    expanded: list[int] = []
    for index in ids:
        placeholder = index == vision.placeholder_id
        expanded += [index] * (vision.tokens(next(rest)) if placeholder else 1)
    return expanded


def collapse(ids: Sequence[int], images: Sequence[str], vision: VisionProcessor) -> list[int]:
    """The inverse of `expand`: one placeholder for each image, for engines that expand themselves.

    Args:
        ids: A stream.
        images: Its images, in their order.
        vision: Counts.

    Raises:
        RenderingFailure: The stream holds other images.
    """
    rest = iter(images)
    collapsed: list[int] = []
    at = 0
    for start in _placeholders(ids, vision.placeholder_id):
        if start < at:
            continue
        image = next(rest, None)
        length = 0 if image is None else vision.tokens(image)
        taken = ids[start : start + length]
        if not taken or len(taken) < length or any(i != vision.placeholder_id for i in taken):
            raise RenderingFailure("the stream holds other image placeholders than its images take")
        collapsed += [*ids[at:start], ids[start]]
        at = start + length
    if next(rest, None) is not None:
        raise RenderingFailure("the stream holds fewer image placeholders than its images take")
    return [*collapsed, *ids[at:]]


def refuse_forged(output_ids: Sequence[int], vision: VisionProcessor | None) -> None:
    """Refuse a sampled turn that holds an image's placeholder.

    No image belongs to it, so neither an engine nor a trainer can compute what follows.

    Raises:
        RenderingFailure: It does. The engine did nothing wrong, and would write it again.
    """
    if vision is not None and vision.placeholder_id in output_ids:
        raise RenderingFailure(
            "the model wrote the token that stands for a part of an image, and no image belongs to "
            "it; nobody could train on such a stream"
        )


def _placeholders(ids: Sequence[int], placeholder: int) -> Iterator[int]:
    return (at for at, index in enumerate(ids) if index == placeholder)
