"""`DeltaText`: the text that a reply appends, from the terminator of the turn before it on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.conversation import MessageDict, texts_of
from retrain.rendering.guard import Guard
from retrain.rendering.tail import Tail, answers_calls
from retrain.rendering.template import ChatTemplate
from retrain.rendering.terminator import Terminator, Vocabulary, find_terminator
from retrain.types import Message, ToolCall


@dataclass(frozen=True, slots=True)
class Delta:
    """What a reply appends.

    Attributes:
        text: Its text as rendered, the terminator first.
        ids: Its ids, the terminator first.
        terminator: That terminator.
    """

    text: str
    ids: list[int]
    terminator: Terminator


class DeltaText:
    """Cuts replies out of short renders, never out of the history.

    Attributes:
        guard: Keeps control tokens out of the replies.
    """

    def __init__(self, template: ChatTemplate, guard: Guard, vocabulary: Vocabulary) -> None:
        self.guard = guard
        self._tail = Tail(template, guard)
        self._terminators: dict[bool, Terminator | RenderingFailure] = {}
        for calls in (False, True):
            try:
                self._terminators[calls] = find_terminator(self._tail, vocabulary, calls=calls)
            except RenderingFailure as failure:
                self._terminators[calls] = failure

    @property
    def terminators(self) -> Mapping[bool, Terminator]:
        """The terminators that were found, by whether the turn ends with a tool call."""
        found = self._terminators.items()
        return {calls: value for calls, value in found if isinstance(value, Terminator)}

    def render(
        self,
        calls: Sequence[ToolCall],
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
    ) -> Delta:
        """Render a reply, next generation prompt included.

        Args:
            calls: The calls of the turn before it.
            messages: The reply.
            tools: The tools of the episode.

        Raises:
            RenderingFailure: The template cannot express the reply, or drops part of it.
        """
        answers = answers_calls(messages)
        terminator = self._terminators[answers]
        if isinstance(terminator, RenderingFailure):
            raise RenderingFailure(str(terminator))
        after, dicts, stands_for = self._tail.render(calls if answers else (), messages, tools)
        if not after.startswith(terminator.gap + terminator.text):
            raise RenderingFailure(
                f"the chat template does not end this turn with {terminator.text!r} as it ends "
                f"others; it writes {after[: len(terminator.gap) + 40]!r}"
            )
        text = after[len(terminator.gap) :]
        _witness(dicts, text)
        ids = self.guard.encode(text, stands_for)
        if not ids or ids[0] != terminator.id:
            raise RenderingFailure(f"the tokenizer does not encode {terminator.text!r} as a token")
        return Delta(text, ids, terminator)


def forms(content: str) -> tuple[str, str]:
    """How a template may write a content: as it is, or escaped as in a JSON string; trimmed."""
    content = content.strip()
    return content, json.dumps(content, ensure_ascii=False)[1:-1]


def _witness(dicts: Sequence[MessageDict], text: str) -> None:
    """Check that every message stands in `text`, in order; what was hidden is part of it."""
    position = 0
    said = ((number, m, text) for number, m in enumerate(dicts, start=1) for text in texts_of(m))
    for number, message, whole in said:
        content = whole.strip()
        found = [at for form in forms(content) if (at := text.find(form, position)) >= 0]
        if not found:
            raise RenderingFailure(
                f"the chat template drops or changes message {number} of the reply "
                f"(role {message['role']}): {content[:60]!r}"
            )
        position = min(found) + len(content)
