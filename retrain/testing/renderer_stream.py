"""Tests about whole streams: prompt, turns and replies against what the template itself renders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from retrain.errors import RenderingFailure
from retrain.rendering.base import Renderer, TurnRenderer
from retrain.testing.renderer_hooks import ANSWER, QUESTION, TOOLS, RendererHooks, calls
from retrain.testing.wording import fail, first_difference, shown
from retrain.types import Message

_NEXT = Message("user", "Where does it live?")

CONVERSATIONS: dict[str, tuple[Message, ...]] = {
    "one_round": (QUESTION, Message("assistant", ANSWER), _NEXT),
    "two_rounds": (
        QUESTION,
        Message("assistant", ANSWER),
        _NEXT,
        Message("assistant", "In Australia."),
        Message("user", "Where there?"),
    ),
    "system_prompt": (Message("system", "Be brief."), QUESTION, Message("assistant", "!"), _NEXT),
    "tool_round": (
        QUESTION,
        Message("assistant", tool_calls=calls("quokka")),
        Message("tool", "A marsupial.", name="lookup"),
    ),
    "parallel_tools": (
        QUESTION,
        Message("assistant", tool_calls=calls("quokka", "quoll")),
        Message("tool", "A marsupial.", name="lookup"),
        Message("tool", "Another one.", name="lookup"),
    ),
    "tools_then_talk": (
        QUESTION,
        Message("assistant", tool_calls=calls("quokka")),
        Message("tool", "A marsupial.", name="lookup"),
        Message("assistant", ANSWER),
        _NEXT,
    ),
}
"""Conversations that end with a reply, by name."""


class StreamTests(RendererHooks):
    """A stream made of deltas is the conversation as the template writes it."""

    @pytest.mark.parametrize("name", CONVERSATIONS)
    def test_a_stream_is_what_the_template_renders(self, renderer: Renderer, name: str) -> None:
        """Prompt, turns and deltas, one behind the other, are one render of it all."""
        if not hasattr(renderer, "turn"):
            pytest.skip("the renderer has no `turn`, which writes what a model would sample")
        if self.rewrites:
            pytest.skip("rewrites is True: the template writes history in another way")
        messages = CONVERSATIONS[name]
        tools = any(message.role == "tool" for message in messages)
        if tools:
            self.require_tools()
        try:
            stream = _stream(cast("TurnRenderer", renderer), messages, tools=tools)
            whole = renderer.first(messages, TOOLS if tools else ())
        except RenderingFailure as refusal:
            pytest.skip(f"refused: {refusal}")
        at = first_difference(whole, stream)
        if at is not None:
            fail(
                f"the stream of {name!r} parts from the template's own render at token {at}",
                expected=shown(whole, at, renderer.decode),
                came=shown(stream, at, renderer.decode),
            )


def _stream(renderer: TurnRenderer, messages: Sequence[Message], *, tools: bool) -> list[int]:
    """The stream of an episode in which exactly these messages are said."""
    shown_tools = TOOLS if tools else ()
    turns = [n for n, message in enumerate(messages) if message.role == "assistant"]
    stream = renderer.first(messages[: turns[0]], shown_tools)
    for turn, following in zip(turns, [*turns[1:], len(messages)], strict=True):
        written = renderer.turn(messages[:turn], messages[turn], shown_tools)
        action = renderer.parse(written)
        answer = messages[turn + 1 : following]
        stream += [*written, *renderer.delta(action, answer, written[-1], shown_tools)]
    return stream
