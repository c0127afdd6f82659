"""Random conversations for rendering tests."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st

from retrain.types import Action, Message, ToolCall

TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "calculator",
            "description": "Evaluate an expression.",
            "parameters": {
                "type": "object",
                "properties": {"expression": {"type": "string", "description": "What to compute."}},
                "required": ["expression"],
            },
        },
    },
)

_CONTROL = re.compile(r"<\|[^|]*\|>|</?(?:think|tool_call|tool_response)>")
"""What the guard writes as text and a template writes as a control token; test_guard.py is about
it. Hypothesis takes such strings from the code that it tests."""

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda text: not _CONTROL.search(text)
) | st.sampled_from(
    [
        '{"a": [1, "b"]}',
        "two\n\nlines",
        "tab\there",
        "é\u0301 ﬀ 漢字 🙂",
        '"quoted" \\ back',
        "  x  ",
    ]
)
WORDS = TEXT.map(str.strip).filter(bool)


@dataclass(frozen=True)
class Round:
    """An assistant turn and the reply to it."""

    turn: Message
    reply: tuple[Message, ...]

    @property
    def action(self) -> Action:
        return Action(self.turn.content, self.turn.reasoning, self.turn.tool_calls)


def _tool_round(texts: tuple[str, ...], results: tuple[str, ...], content: str, says: str) -> Round:
    calls = tuple(ToolCall("calculator", {"expression": text, "n": [1, None]}) for text in texts)
    reply = tuple(Message("tool", result) for result in results[: len(calls)])
    if says:
        reply = (*reply, Message("user", says))
    return Round(Message("assistant", content, tool_calls=calls), reply)


def rounds(max_calls: int) -> st.SearchStrategy[list[Round]]:
    """One to four rounds; tool rounds hold up to `max_calls` calls, some a user's word behind."""
    talk = st.builds(
        lambda text, reply: Round(Message("assistant", text), (Message("user", reply),)),
        WORDS,
        WORDS,
    )
    tools = st.builds(
        _tool_round,
        st.lists(TEXT, min_size=1, max_size=max_calls).map(tuple),
        st.lists(TEXT, min_size=max_calls, max_size=max_calls).map(tuple),
        st.just("") | WORDS,
        st.just("") | WORDS,
    )
    return st.lists(talk | tools, min_size=1, max_size=4)
