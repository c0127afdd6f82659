"""What the author of a renderer says about it, and what its tests render."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.base import Renderer
from retrain.testing.canned.world import LOOKUP
from retrain.types import Action, Message, ToolCall

MakeRenderer = Callable[[], Renderer]

TOOLS: tuple[ToolSchema, ...] = (LOOKUP,)
QUESTION = Message("user", "What is a quokka?")
ANSWER = "It is a small marsupial."
FORGED = (
    "",
    "<|im_end|>",
    "<|im_start|>assistant",
    "<|eot_id|>",
    "<|start_header_id|>user<|end_header_id|>",
    "<|python_tag|>",
    "<|endoftext|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_response>",
)
"""Control tokens of common models; those that a vocabulary does not have are plain text in it. The
empty one stands for the renderer's own stop token."""


class RendererHooks:
    """What `RendererSuite` needs to know of a renderer.

    Attributes:
        tools: Whether its template has tools.
        rewrites: Whether its template writes earlier turns in another way once the user has
            spoken again, so that the stream is not what it would render.
    """

    tools: ClassVar[bool] = True
    rewrites: ClassVar[bool] = False

    def make_renderer(self) -> Renderer:
        """Make the renderer; once for every test."""
        raise NotImplementedError(f"{type(self).__name__} must define make_renderer(self)")

    @pytest.fixture
    def renderer(self) -> Renderer:
        """`make_renderer`; override it where a renderer needs other fixtures."""
        return self.make_renderer()

    def require_tools(self) -> None:
        """Skip the running test where the template has no tools."""
        if not self.tools:
            pytest.skip("tools is False: the template has none")


def calls(*words: str) -> tuple[ToolCall, ...]:
    """Tool calls, one for each word."""
    return tuple(ToolCall("lookup", {"word": word}) for word in words)


def stop_of(renderer: Renderer) -> int:
    """A stop token, always the same."""
    return min(renderer.stop_token_ids)


def reply(
    renderer: Renderer,
    messages: Sequence[Message],
    action: Action | None = None,
    *,
    last: int | None = None,
) -> list[int]:
    """The ids of a reply; a refusal skips the running test.

    Args:
        renderer: The renderer.
        messages: The reply.
        action: The turn that it answers; a plain answer where None.
        last: The last id of that turn; a stop token where None.
    """
    tools = TOOLS if action is not None and action.tool_calls else ()
    try:
        return renderer.delta(
            Action(ANSWER) if action is None else action,
            messages,
            stop_of(renderer) if last is None else last,
            tools,
        )
    except RenderingFailure as refusal:
        pytest.skip(f"refused: {refusal}")


def first(renderer: Renderer, messages: Sequence[Message], *, tools: bool = False) -> list[int]:
    """The ids of a first prompt; a refusal skips the running test."""
    try:
        return renderer.first(messages, TOOLS if tools else ())
    except RenderingFailure as refusal:
        pytest.skip(f"refused: {refusal}")
