"""The token with which a template ends an assistant turn.

Most templates close the turn with a token of its own (`<|im_end|>`, `<|eot_id|>`): a plain
terminator. A few write nothing, and the role marker of the next message ends the turn (GLM's
`<|user|>` and `<|observation|>`, Gemma 4's `<|tool_response>`): such a terminator also opens what
follows, and must stand there whatever the model sampled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from retrain.errors import RenderingFailure
from retrain.rendering.tail import Tail, shared_prefix
from retrain.types import Message, ToolCall

_FIRST, _SECOND = "Wq1jXz7aKv", "Wq2jXz7bKv"


@dataclass(frozen=True, slots=True)
class Terminator:
    """How a template ends an assistant turn.

    Attributes:
        gap: What the template writes between the last field and the terminator.
        text: The terminator.
        id: Its id.
        opens: True for a role marker, which also opens the next message.
        stops: Whether the stop set holds it, or the token that closes a conversation's last turn.
    """

    gap: str
    text: str
    id: int
    opens: bool
    stops: bool


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens that may end a turn.

    Attributes:
        stops: Text to id of the stop set.
        special: Text to id of all special tokens, stops among them.
    """

    stops: Mapping[str, int]
    special: Mapping[str, int]

    def first_stop(self, text: str) -> tuple[int, str] | None:
        """Position and text of the first stop token in `text`."""
        return _first(self.stops, text)

    def first_special(self, text: str) -> tuple[int, str] | None:
        """Position and text of the first special token in `text`."""
        return _first(self.special, text)


def _first(tokens: Mapping[str, int], text: str) -> tuple[int, str] | None:
    longest_first = sorted(tokens, key=len, reverse=True)
    match = re.search("|".join(map(re.escape, longest_first)) or "(?!)", text)
    return None if match is None else (match.start(), match.group())


def find_terminator(tail: Tail, vocabulary: Vocabulary, *, calls: bool) -> Terminator:
    """Find the terminator of an assistant turn.

    Args:
        tail: Renders the conversations compared.
        vocabulary: The tokens that may end a turn.
        calls: Whether the turn ends with a tool call that a tool message answers.

    Raises:
        RenderingFailure: The template refuses such turns, or ends them with no token.
    """
    called = (ToolCall("lookup", {}),) if calls else ()
    role = "tool" if calls else "user"
    closing, _, _ = tail.render(called, (), generation_prompt=False)
    replied, _, _ = tail.render(called, (Message(role, _FIRST),))
    if _FIRST not in replied:
        raise RenderingFailure(f"the chat template drops a {role} message")
    closed = shared_prefix(closing, replied)
    before = replied[: replied.index(_FIRST)]
    found = (
        vocabulary.first_stop(closed)
        or vocabulary.first_stop(before)
        or vocabulary.first_special(closed)
        or vocabulary.first_special(before)
    )
    if found is None:
        raise RenderingFailure(
            "the chat template ends an assistant turn without any special token, so the end of a "
            "sampled turn and the beginning of a reply cannot be told apart"
        )
    position, text = found
    behind = before[position + len(text) :]
    if text in closed:
        opens = vocabulary.first_special(behind) is None or _reopens(tail, called, role, text)
    else:
        opens = vocabulary.first_stop(closing) is None
    stops = text in vocabulary.stops or vocabulary.first_stop(closing) is not None
    return Terminator(replied[:position], text, vocabulary.special[text], opens, stops)


def _reopens(tail: Tail, calls: tuple[ToolCall, ...], role: str, text: str) -> bool:
    """Whether `text` opens a message: it stands before a second one and does not close the last."""
    messages = (Message(role, _FIRST), Message(role, _SECOND))
    try:
        after, _, _ = tail.render(calls * 2, messages, generation_prompt=False)
    except RenderingFailure:
        return False
    _, _, behind_first = after.partition(_FIRST)
    between, found, behind_second = behind_first.partition(_SECOND)
    return bool(found) and text in between and text not in behind_second
