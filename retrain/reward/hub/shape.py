"""`repetition` and `format`: how a response is built."""

from __future__ import annotations

import re

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case, response_of

_NAME = re.compile(r"[A-Za-z][\w-]*")


def repetition(case: Case, *, words: int = 4, most: float = 1.0) -> float:
    """0.0 where no run of words comes twice, down to -`most` where all do.

    The part of the n-grams that have come before, times `-most`: one number for the response. The
    n-gram penalty of Yeo et al. 2025, "Demystifying Long Chain-of-Thought Reasoning in LLMs"
    (arXiv:2502.03373), section 4.5, which it is after, is given token by token.

    Args:
        case: The response.
        words: How many words a run has, 1 to 64.
        most: The largest penalty, as a positive number.

    Raises:
        RewardFailure: `words` or `most` is out of range.
    """
    if not 1 <= words <= 64 or most < 0:
        raise RewardFailure(
            f"repetition: words is {words} (expected 1 to 64), most is {most:g} (at least 0)"
        )
    said = response_of(case).split()
    total = len(said) - words + 1
    if total < 1:
        return 0.0
    distinct = len({hash(tuple(said[i : i + words])) for i in range(total)})
    return -most * (1 - distinct / total) + 0.0


def format(
    case: Case, *, think: str = "think", answer: str | None = "answer", opened: bool = False
) -> float:
    """1.0 where the response is `<think>…</think>` and `<answer>…</answer>`, and nothing else.

    Each tag stands once, in this order, with something inside; white space around them is free.

    Args:
        case: The response.
        think: The first tag's name.
        answer: The second tag's name; None where any text after the first one is the answer.
        opened: Whether the prompt ends with the first tag, so that the response has no opening one.

    Raises:
        RewardFailure: A tag's name is no name.
    """
    for name in filter(None, (think, answer)):
        if not _NAME.fullmatch(name):
            raise RewardFailure(f"format: {name!r} is no name of a tag")
    text = response_of(case)
    text = f"<{think}>{text}" if opened else text
    inside, rest = _taken(text, think)
    if inside is None:
        return 0.0
    if answer is None:
        return float(bool(inside.strip()) and bool(rest.strip()))
    said, rest = _taken(rest, answer)
    return float(said is not None and bool(inside.strip() and said.strip()) and not rest.strip())


def _taken(text: str, tag: str) -> tuple[str | None, str]:
    """What stands inside a text's first tag, which must begin it, and what follows."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    if text.count(opening) != 1 or text.count(closing) != 1:
        return None, text
    before, _, rest = text.partition(opening)
    inside, closed, rest = rest.partition(closing)
    return (inside, rest) if closed and not before.strip() else (None, text)
