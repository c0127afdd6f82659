"""Chat requests to a judge, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import shown

Messages: TypeAlias = list[dict[str, str]]
_REPEATED = 2000


@dataclass(frozen=True, slots=True)
class Chat:
    """Everything of a request but its messages.

    Attributes:
        model: The model's name.
        temperature: How it samples.
        max_tokens: The longest reply.
        request: Further fields; None takes one of ours away.
    """

    model: str
    temperature: float
    max_tokens: int
    request: Mapping[str, Any]

    def body(self, messages: Messages) -> dict[str, Any]:
        """A whole request."""
        body = {
            "model": self.model,
            "messages": messages,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            **self.request,
        }
        return {name: value for name, value in body.items() if value is not None}

    def messages(self, system: str, question: str) -> Messages:
        """The messages of a question."""
        return [{"role": "system", "content": system}, {"role": "user", "content": question}]

    def again(self, messages: Messages, reply: str, between: tuple[float, float]) -> Messages:
        """The messages that ask for the score that a reply did not give."""
        lowest, highest = between
        more = (
            f"Your reply has no score from {lowest:g} to {highest:g} in the form that was asked "
            "for. Reply with the score in that form, and nothing else."
        )
        return [
            *messages,
            {"role": "assistant", "content": reply[-_REPEATED:] or "(nothing)"},
            {"role": "user", "content": more},
        ]


def read_chat(reply: Any) -> str:
    """The text of a chat completion; "" where the model wrote none.

    Raises:
        RewardFailure: It is no chat completion.
    """
    try:
        content = reply["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise RewardFailure(f"{shown(reply)}, expected a chat completion") from None
    if not isinstance(content, str | None):
        raise RewardFailure(f"content is {shown(content)}, expected text")
    return content or ""
