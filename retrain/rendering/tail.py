"""The end of a short conversation: what follows the last field that the model wrote.

The conversation is one question, one assistant turn whose last field is a sentinel, and the reply.
The sentinel stands in the arguments of the last call when the reply answers calls, else in the
content: a template may drop or move the content of a turn that holds calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.conversation import MessageDict, conversation
from retrain.rendering.guard import Guard
from retrain.rendering.template import ChatTemplate
from retrain.types import Message, ToolCall

SENTINEL = "Zq8vXk4Kxj"


def answers_calls(messages: Sequence[Message]) -> bool:
    """Whether a reply answers tool calls."""
    return any(message.role == "tool" for message in messages)


def shared_prefix(first: str, second: str) -> str:
    """The longest text with which both begin."""
    pairs = enumerate(zip(first, second, strict=False))
    differs = (position for position, (a, b) in pairs if a != b)
    return first[: next(differs, min(len(first), len(second)))]


def sentinel_turn(calls: Sequence[ToolCall]) -> Message:
    """An assistant turn whose last field is the sentinel; `calls` keep their names and ids."""
    if not calls:
        return Message("assistant", SENTINEL)
    last = ToolCall(calls[-1].name, {"value": SENTINEL}, calls[-1].id)
    others = tuple(ToolCall(call.name, {}, call.id) for call in calls[:-1])
    return Message("assistant", tool_calls=(*others, last))


class Tail:
    """Renders replies behind a sentinel."""

    def __init__(self, template: ChatTemplate, guard: Guard) -> None:
        self._template = template
        self._guard = guard

    def render(
        self,
        calls: Sequence[ToolCall],
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        *,
        generation_prompt: bool = True,
    ) -> tuple[str, list[MessageDict], dict[str, str]]:
        """Render what follows the last field that the model wrote.

        Args:
            calls: The calls that the reply answers; empty where it answers none.
            messages: The reply.
            tools: The tools of the episode.
            generation_prompt: Whether the next assistant turn is opened.

        Returns:
            The text after the sentinel, the reply as it was rendered, and what each private-use
            character in both stands for.

        Raises:
            RenderingFailure: The template refuses the conversation or loses the sentinel.
        """
        plain = conversation([Message("user", "Hello."), sentinel_turn(calls), *messages])
        dicts, stands_for = self._guard.hide(plain)
        text = self._template.render_dicts(dicts, tools, generation_prompt=generation_prompt)
        _, found, after = text.partition(SENTINEL)
        if not found:
            field = "the arguments of a tool call" if calls else "the content of an assistant turn"
            raise RenderingFailure(f"the chat template leaves out {field}")
        return after, dicts[2:], stands_for
