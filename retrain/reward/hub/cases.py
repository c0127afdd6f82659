"""What a rule of the hub sees, and what it gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from retrain.errors import RewardFailure

Score: TypeAlias = "float | dict[str, Any]"
"""A number, or several values by name of which one is the reward."""

Compat: TypeAlias = Literal["slime"]
"""Whose scores to give instead of the right ones."""


@dataclass(frozen=True, slots=True)
class Case:
    """One response to score.

    Attributes:
        response: What the model wrote, reasoning included; a rule treats None as no answer.
        label: The expected answer.
        metadata: Everything else about the task.
        tokens: How long the response is, in tokens; None where nobody counted.
        prompt: What the model was asked: text or messages; None where it is not known.
    """

    response: Any
    label: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    prompt: Any = None


def response_of(case: Case) -> str:
    """The response as text: "" where there is none.

    Raises:
        RewardFailure: It is something else than text.
    """
    if case.response is None:
        return ""
    if not isinstance(case.response, str):
        raise RewardFailure(f"the response is {type(case.response).__name__}, expected text")
    return case.response


def answer_of(case: Case) -> str:
    """What a response says after its reasoning: what follows the last `</think>`.

    Raises:
        RewardFailure: The response is something else than text.
    """
    return response_of(case).rpartition("</think>")[2]


def label_of(case: Case, rule: str) -> str:
    """The label as text.

    A whole number that is written as a float (3.0) is read as the whole number.

    Args:
        case: The case.
        rule: The rule's name, for the message.

    Raises:
        RewardFailure: There is none, or it is neither text nor a finite number.
    """
    label = case.label
    if isinstance(label, str) and label.strip():
        return label
    if isinstance(label, int) and not isinstance(label, bool):
        return str(label)
    if isinstance(label, float) and math.isfinite(label):
        return str(int(label)) if label.is_integer() else repr(label)
    raise RewardFailure(f"{rule} needs a label that is text or a number, got {shown(label)}")


def shown(value: Any) -> str:
    """A value as an error message shows it: cut to 80 characters."""
    try:
        text = repr(value) if not isinstance(value, str) else repr(value[:100])
    except ValueError:  # an integer of more digits than Python writes
        text = f"a {type(value).__name__} too long to show"
    return text if len(text) <= 80 else f"{text[:77]}..."


def reward_in(score: Any, reward_key: str) -> Any:
    """The reward in a score that may hold several values.

    Raises:
        RewardFailure: The score has no such key.
    """
    if not isinstance(score, Mapping):
        return score
    if reward_key not in score:
        raise RewardFailure(
            f"reward_key {reward_key!r}: the score has {', '.join(map(str, score))}"
        )
    return score[reward_key]
