"""`Shape`: what kind of reply a template is asked to write, which its self-check goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.images import Image
from retrain.rendering.conversation import require_text
from retrain.rendering.tail import answers_calls
from retrain.types import Action, Message, ToolCall

_ROLES = ("user", "tool", "system", "developer")

LOOKUP_TOOL: ToolSchema = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look a word up.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string", "description": "The word."}},
            "required": ["word"],
        },
    },
}
"""The tool of the self-check's conversations."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of reply.

    Attributes:
        calls: How many calls of the turn it answers; 0 where it answers none.
        roles: The role of each message, and whether its content is blank.
        tools: Whether the episode has tools.
        images: How many images each message shows; empty where none shows any.
    """

    calls: int
    roles: tuple[tuple[str, bool], ...]
    tools: bool
    images: tuple[int, ...] = ()

    @classmethod
    def of(cls, action: Action, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Shape:
        """The shape of a reply.

        Raises:
            RenderingFailure: A message has a role that no reply may have, or answers no call.
        """
        for message in messages:
            require_text(message)
            if message.role not in _ROLES:
                raise RenderingFailure(
                    f"a reply cannot hold a message of role {message.role!r}; it takes user and "
                    "tool messages"
                )
        answers = answers_calls(messages)
        if answers and not action.tool_calls:
            raise RenderingFailure(
                "the reply holds a tool message, but the turn holds no tool call that could be "
                "read; answer with a user message instead"
            )
        roles = tuple((message.role, not message.content.strip()) for message in messages)
        images = tuple(len(message.images) for message in messages)
        shown = images if any(images) else ()
        return cls(len(action.tool_calls) if answers else 0, roles, bool(tools), shown)

    @classmethod
    def at_the_end(cls, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Shape | None:
        """The shape of the reply with which a conversation ends; None where nothing is replied to.

        Raises:
            RenderingFailure: As `of`.
        """
        turns = [at for at, message in enumerate(messages) if message.role == "assistant"]
        if not turns:
            return None
        turn = messages[turns[-1]]
        return cls.of(Action(tool_calls=turn.tool_calls), messages[turns[-1] + 1 :], tools)

    @property
    def name(self) -> str:
        """The shape in words."""
        words = [f"blank {role}" if blank else role for role, blank in self.roles]
        reply = f"reply of {' + '.join(words)}" if words else "empty reply"
        called = f" to {self.calls} tool calls" if self.calls > 1 else ""
        shown = f", with {sum(self.images)} images" if self.images else ""
        return f"{reply}{called}{', with tools' if self.tools else ''}{shown}"

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """The tools of the shape's test conversations."""
        return (LOOKUP_TOOL,) if self.tools else ()

    def tool_calls(self, word: str) -> tuple[ToolCall, ...]:
        """Calls that the shape's reply answers."""
        return tuple(ToolCall("lookup", {"word": f"{word}{i}"}) for i in range(self.calls))

    def reply(self, word: str) -> tuple[Message, ...]:
        """A reply of this shape; message i holds `word` and i."""
        shown = self.images or (0,) * len(self.roles)
        return tuple(
            Message(role, "" if blank else f"{word}{position}", images=(Image(word),) * images)
            for position, ((role, blank), images) in enumerate(zip(self.roles, shown, strict=True))
        )


STANDARD_SHAPES = (
    Shape(0, (("user", False),), tools=False),
    Shape(0, (("user", False),), tools=True),
    Shape(1, (("tool", False),), tools=True),
    Shape(2, (("tool", False), ("tool", False)), tools=True),
    Shape(1, (("tool", False), ("user", False)), tools=True),
)
"""What is checked at start-up; every other shape is checked when it first occurs."""
