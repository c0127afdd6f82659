"""Tools that return images: the model is shown them in the answer."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image as Pillow

from retrain.environment import tool
from retrain.environment.tool_environment import ToolEnvironment
from retrain.errors import ConfigError
from retrain.images import Image
from retrain.types import Action, Message, Task, ToolCall
from retrain.vision import ImageLimits
from retrain.vision.reading import read_picture


@tool
def draw(colour: str) -> Pillow.Image:
    """Draw."""
    return Pillow.new("RGB", (4, 4), colour)


@tool
def compare(names: list[str]) -> list[str | Image]:
    """Compare."""
    return ["Left and right:", *map(Image, names), "Which?"]


@tool
def tell() -> list[str]:
    """Tell."""
    return ["no", "image"]


async def answered(name: str, **arguments: Any) -> Message:
    environment = ToolEnvironment(tools=[draw, compare, tell])
    await environment.reset(Task("t", "Look."), 0)
    result = await environment.step(Action(tool_calls=(ToolCall(name, arguments),)))
    (message,) = result.observation.messages
    return message


async def test_a_picture_is_shown() -> None:
    message = await answered("draw", colour="red")
    assert (message.role, message.content) == ("tool", "")
    (image,) = message.images
    assert read_picture(image.source, ImageLimits()).getpixel((0, 0)) == (255, 0, 0)


async def test_texts_and_images_stand_in_one_answer() -> None:
    message = await answered("compare", names=["a.png", "b.png"])
    assert message.content == "Left and right:\nWhich?"
    assert message.images == (Image("a.png"), Image("b.png"))


async def test_texts_alone_stay_json() -> None:
    assert await answered("tell") == Message(
        "tool", '["no", "image"]', name="tell", tool_call_id=None
    )


def test_an_image_of_another_library_is_refused_at_start_up() -> None:
    class Foreign:
        """An image."""

    Foreign.__name__, Foreign.__module__ = "Image", "fastmcp.utilities.types"

    def look() -> Any:
        """Look."""

    look.__annotations__["return"] = list[Foreign]
    with pytest.raises(ConfigError, match=r"returns an image of MCP's.*retrain\.images\.Image"):
        tool(look).schema  # noqa: B018 - the property raises
