"""Messages with images: where placeholders stand, and that nothing is dropped in silence."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tiny_vlm import bytes_tokenizer

from retrain.environment.messages import as_message
from retrain.errors import RenderingFailure
from retrain.images import Image
from retrain.rendering import load_renderer
from retrain.rendering.renderer import DeltaRenderer
from retrain.types import Action, Message, Task, ToolCall
from retrain.vision import collapse, expand

TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}


class Counting:
    """An image takes as many placeholders as its name has letters."""

    def __init__(self, placeholder_id: int) -> None:
        self.placeholder_id = placeholder_id

    def tokens(self, image: str) -> int:
        return len(image)

    def picture(self, image: str) -> Any:
        raise AssertionError("nobody looks at it")

    def model_inputs(self, images: Sequence[str]) -> Mapping[str, Any]:
        raise AssertionError("nobody computes it")


@pytest.fixture(scope="module")
def renderer() -> DeltaRenderer:
    tokenizer = bytes_tokenizer()
    vision = Counting(tokenizer.convert_tokens_to_ids("<|image_pad|>"))
    return load_renderer(tokenizer, vision=vision)


def shown(text: str, *names: str, role: str = "user") -> Message:
    return Message(role, text, images=tuple(map(Image, names)))


def text_of(renderer: DeltaRenderer, ids: list[int]) -> str:
    return renderer.decode(ids).replace("<|vision_start|>", "[").replace("<|vision_end|>", "]")


PAD = "<|image_pad|>"


def test_images_stand_before_the_text_or_where_the_text_says(renderer: DeltaRenderer) -> None:
    before = text_of(renderer, renderer.first([shown("What?", "ab", "c")]))
    assert f"user\n[{PAD}{PAD}][{PAD}]What?<|im_end|>" in before
    marked = text_of(renderer, renderer.first([shown("This <image> or <image>?", "ab", "c")]))
    assert f"user\nThis [{PAD}{PAD}] or [{PAD}]?<|im_end|>" in marked


def test_a_text_that_marks_another_number_of_images_is_refused(renderer: DeltaRenderer) -> None:
    with pytest.raises(RenderingFailure, match="has 2 images and says <image> 1 times"):
        renderer.first([shown("This <image>?", "ab", "c")])


def test_a_role_that_the_template_shows_no_images_in_is_refused(renderer: DeltaRenderer) -> None:
    messages = [shown("You see.", "ab", role="system"), Message("user", "What?")]
    with pytest.raises(RenderingFailure, match="0 image placeholders for 1 images"):
        renderer.first(messages)


def test_the_first_prompt_cannot_forge_an_image(renderer: DeltaRenderer) -> None:
    with pytest.raises(RenderingFailure, match="1 image placeholders for 0 images"):
        renderer.first([Message("user", f"What is {PAD}?")])


@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_reply_appends_what_a_whole_render_ends_with(renderer: DeltaRenderer, role: str) -> None:
    calls = (ToolCall("look", {}),) if role == "tool" else ()
    action = Action("" if calls else "Red.", tool_calls=calls)
    reply = [shown("Look: <image> and now?", "abc", role=role)]
    stop = next(iter(renderer.turn([Message("user", "Go.")], Message("assistant", "Red."))[-1:]))
    delta = renderer.delta(action, reply, stop, [TOOL] if calls else ())
    question = Message("user", "Go.")
    whole = renderer.whole([question, action.message, *reply], tools=[TOOL] if calls else ())
    assert whole[-len(delta) :] == delta
    assert renderer.decode(delta).count(PAD) == 3


def test_a_reply_cannot_forge_an_image(renderer: DeltaRenderer) -> None:
    delta = renderer.delta(Action("Red."), [shown(f"{PAD} here", "ab")], 0)
    assert delta.count(renderer.image_processor.placeholder_id) == 2  # type: ignore[union-attr]


def test_a_model_that_reads_text_is_shown_no_image(renderer: DeltaRenderer) -> None:
    blind = load_renderer(bytes_tokenizer())
    for render in (lambda m: blind.first(m), lambda m: blind.delta(Action("x"), m, 0)):
        with pytest.raises(RenderingFailure, match="shows an image, and no image processor"):
            render([shown("What?", "ab")])


def test_collapse_is_the_inverse_of_expand() -> None:
    draw, vision = random.Random(7), Counting(9)
    for _ in range(300):
        images = ["x" * draw.randint(1, 4) for _ in range(draw.randint(0, 4))]
        ids = [draw.randint(0, 8) for _ in range(draw.randint(0, 6))]
        for _ in images:
            ids.insert(draw.randint(0, len(ids)), 9)
        wide = expand(ids, images, vision)
        assert len(wide) == len(ids) + sum(map(len, images)) - len(images)
        assert collapse(wide, images, vision) == ids
        if images:
            for wrong in (images[:-1], [*images, "x"], [*images[:-1], images[-1] + "x" * 30]):
                with pytest.raises(RenderingFailure):
                    collapse(wide, wrong, vision)


def test_content_parts_are_read_as_people_write_them() -> None:
    parts = [
        {"type": "image", "image": "a.png"},
        {"type": "text", "text": "Like "},
        {"type": "image_url", "image_url": {"url": "https://b/c.png"}},
        {"type": "text", "text": "?"},
    ]
    read = as_message({"role": "user", "content": parts})
    assert read == shown("<image>Like <image>?", "a.png", "https://b/c.png")
    ahead = as_message({"role": "user", "content": parts[:2]})
    assert ahead == shown("Like ", "a.png")
    with pytest.raises(ValueError, match="type text, image or image_url, not 'video'"):
        as_message({"role": "user", "content": [{"type": "video", "video": "a.mp4"}]})


def test_the_first_user_message_shows_the_tasks_images() -> None:
    system, user = Message("system", "Look."), Message("user", "What?")
    task = Task("t", (system, user, Message("user", "Well?")), images=("a.png",))
    assert task.messages == (system, shown("What?", "a.png"), Message("user", "Well?"))
    own = (shown("Mine.", "b.png"),)
    assert task.with_images(own) == own
