"""`WholeText`: a whole conversation as a prompt, for histories that were rewritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.conversation import MessageDict, conversation, texts_of
from retrain.rendering.delta import forms
from retrain.rendering.guard import Guard
from retrain.rendering.template import ChatTemplate
from retrain.types import Message

SHOWN_ROLES = ("system", "developer", "user", "tool")


class WholeText:
    """Renders conversations from their beginning, with what comes from outside guarded."""

    def __init__(self, template: ChatTemplate, guard: Guard) -> None:
        self._template = template
        self._guard = guard

    def ids(
        self,
        messages: Sequence[Message],
        trusted: Sequence[Message] = (),
        tools: Sequence[ToolSchema] = (),
    ) -> list[int]:
        """The ids of a conversation, next generation prompt included.

        Args:
            messages: The conversation; control tokens in it stay text.
            trusted: Messages whose control tokens count as such: those of the first prompt.
            tools: The tools of the episode.

        Raises:
            RenderingFailure: The template refuses the conversation, or drops or changes a message
                that the model did not write.
        """
        dicts = conversation(messages)
        hidden, stands_for = self._guard.hide(dicts)
        shown: list[MessageDict] = [
            given if message in trusted else guarded
            for message, given, guarded in zip(messages, dicts, hidden, strict=True)
        ]
        text = self._template.render_dicts(shown, tools, generation_prompt=True)
        require_shown(((str(m["role"]), said) for m in shown for said in texts_of(m)), text)
        return self._guard.encode(text, stands_for)


def require_shown(messages: Iterable[tuple[str, str]], text: str) -> None:
    """Check that a rendered conversation holds every message that the model did not write.

    Args:
        messages: Role and content of each.
        text: The rendered conversation.

    Raises:
        RenderingFailure: Naming the first message that is dropped or changed.
    """
    contents = Counter(pair for pair in messages if pair[0] in SHOWN_ROLES)
    for (role, content), times in contents.items():
        written = forms(content)
        if written[0] and max(text.count(form) for form in written) < times:
            raise RenderingFailure(
                f"the chat template drops or changes the {role} message {content[:60]!r} of the "
                "prompt"
            )
