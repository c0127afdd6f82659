"""What a tool returned, as the text that the model reads and the images beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.environment.messages import read_parts
from retrain.errors import ToolFailure
from retrain.images import Image


class ToolAnswer(str):
    """The text of a tool's answer, with the images that it shows.

    Attributes:
        images: The images; they stand before the text, or where it says `<image>`.
    """

    images: tuple[Image, ...]

    def __new__(cls, text: str, images: tuple[Image, ...] = ()) -> ToolAnswer:
        """Put images beside a text."""
        answer = super().__new__(cls, text)
        answer.images = images
        return answer


def images_beside(text: str) -> tuple[Image, ...]:
    """The images of a tool's answer; none beside plain text."""
    return text.images if isinstance(text, ToolAnswer) else ()


def shown_answer(result: Any) -> ToolAnswer | None:
    """An image, or a list of images and texts, as an answer; None where it is neither.

    Raises:
        ValueError: An image that is none.
    """
    items = result if isinstance(result, list | tuple) else [result]
    shown = [item for item in items if _is_image(item)]
    if not shown or not all(_is_image(item) or isinstance(item, str) for item in items):
        return None
    texts = [item for item in items if isinstance(item, str)]
    return ToolAnswer("\n".join(texts), tuple(map(Image.of, shown)))


def _is_image(value: Any) -> bool:
    return isinstance(value, Image) or type(value).__module__.partition(".")[0] == "PIL"


def tool_text(name: str, result: Any) -> str:
    """The answer of a tool of a TRL environment: `str(result)`, or what content blocks hold.

    Args:
        name: The tool's name, for the message.
        result: What it returned.

    Raises:
        ToolFailure: A block is neither text nor an image that can be used.
    """
    text = join_blocks(result)
    if text is not None:
        return text
    if _are_blocks(result):
        try:
            return ToolAnswer(*read_parts(result))
        except ValueError as error:
            raise ToolFailure(f"tool {name}: {error}") from error
    return str(result)


def join_blocks(value: Any) -> str | None:
    """Text, or the joined text of content blocks; None where it is neither."""
    if isinstance(value, str):
        return str(value)
    if _are_blocks(value) and all(block["type"] == "text" for block in value):
        return "".join(str(block.get("text", "")) for block in value)
    return None


def _are_blocks(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(block, Mapping) and "type" in block for block in value)
    )
