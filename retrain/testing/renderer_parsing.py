"""Tests about reading what a model sampled."""

from __future__ import annotations

import random
from typing import cast

import pytest

from retrain.errors import RenderingFailure
from retrain.rendering.base import Renderer, TurnRenderer
from retrain.testing.renderer_hooks import ANSWER, QUESTION, TOOLS, RendererHooks, calls, stop_of
from retrain.testing.wording import raised, require
from retrain.types import Action, Message, ToolCall

_ROUNDS = 200
_ALMOST = (
    '<tool_call>\n{"name": "lookup", "arguments": {"word": \n</tool_call>',
    "<tool_call></tool_call><tool_call>",
    "<think>I never stop",
    '{"name": "lookup", "parameters": ',
    '<|python_tag|>{"name": 3}',
    "[" * 3000,
    "\ufffd\u0000\u200b",
)
"""Texts that look like calls."""


class ParsingTests(RendererHooks):
    """Whatever a model samples becomes an `Action`."""

    def test_nothing_sampled_makes_parsing_fail(self, renderer: Renderer) -> None:
        """Random tokens, cut characters and no tokens at all are read without an exception."""
        rng = random.Random(0)
        prompt = renderer.first((QUESTION,))
        known = [*prompt, *renderer.delta(Action("x"), (QUESTION,), stop_of(renderer))]
        some = [*known, *range(min(max(known), 5000)), *renderer.stop_token_ids]
        for _ in range(_ROUNDS):
            _read(renderer, rng.choices(some, k=rng.randrange(12)))

    @pytest.mark.parametrize("text", _ALMOST)
    def test_almost_a_tool_call_is_data(self, renderer: Renderer, text: str) -> None:
        """A call that cannot be read is a `parse_error` or text, never an exception."""
        ids = renderer.first((Message("user", text),))
        _read(renderer, ids)

    def test_an_empty_turn_says_nothing(self, renderer: Renderer) -> None:
        """A turn that is its stop token alone is an empty answer."""
        action = _read(renderer, [stop_of(renderer)])
        require(
            action.text == "" and not action.tool_calls and action.parse_error is None,
            "an empty turn was read as something",
            expected=Action(),
            came=action,
        )

    def test_an_answer_is_read_back(self, renderer: Renderer) -> None:
        """The text of a turn is what the model wrote, without its stop token."""
        action = self._written(renderer, Message("assistant", ANSWER))
        require(action.text == ANSWER, "a turn has another text", expected=ANSWER, came=action)

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_tool_calls_are_read_back(self, renderer: Renderer, count: int) -> None:
        """Calls that the template writes are read as they were, in order."""
        self.require_tools()
        words = ("sea", 'a "quoted" word', "漢字\n{}")[:count]
        asked = tuple(ToolCall(call.name, call.arguments) for call in calls(*words))
        action = self._written(renderer, Message("assistant", tool_calls=asked))
        came = tuple(ToolCall(call.name, dict(call.arguments)) for call in action.tool_calls)
        require(came == asked, "tool calls are read in another way", expected=asked, came=action)

    def _written(self, renderer: Renderer, message: Message) -> Action:
        if not hasattr(renderer, "turn"):
            pytest.skip("the renderer has no `turn`, which writes what a model would sample")
        tools = TOOLS if message.tool_calls else ()
        try:
            ids = cast("TurnRenderer", renderer).turn((QUESTION,), message, tools)
        except RenderingFailure as refusal:
            pytest.skip(f"refused: {refusal}")
        return _read(renderer, ids)


def _read(renderer: Renderer, ids: list[int]) -> Action:
    __tracebackhide__ = True
    try:
        action = renderer.parse(ids)
    except Exception as error:  # noqa: BLE001 - every exception is the finding
        raised(f"parse failed on {renderer.decode(ids)!r}", error, expected="an Action")
    require(
        isinstance(action, Action),
        "parse gives something else than an Action",
        expected="an Action",
        came=type(action).__name__,
    )
    return action
