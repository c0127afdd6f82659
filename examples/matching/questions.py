"""Counts the questions in what a player says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .names import Names

_WORDS = re.compile(
    r"\b(?:what|which|who|whom|whose|how|why|where|when|can|could|would|should|do|does)\b",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"(?:what|which|who|whom|whose|how|why|where|when)\b"
    r"|(?:can|could|would|should|do|does|did|have|will) (?:you|we|i)\b",
    re.IGNORECASE,
)
_SEEKING = re.compile(
    r"\b(?:scores?|affinity|number|value|rating|fit)\s+(?:of|for|between|with|on|to)\b"
    r"|\b(?:tell|give|share|send|let)\s+(?:me|us)\b"
    r"|\bdo you (?:see|have|know)\b|\b(?:i|we) (?:need|want) to know\b",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"[^?.!\n/]+\??")


@dataclass(frozen=True, slots=True)
class Questions:
    """What one text asks.

    Attributes:
        asked: How many questions it holds: sentences that end in a question mark, open as a
            question does or ask for a score in other words.
        marks: Question marks.
        words: Question words, wherever they stand.
        seeking: Phrases that ask for a score ("score for", "tell me").
        pairs: Questions about exactly one reviewer and one paper.
    """

    asked: int = 0
    marks: int = 0
    words: int = 0
    seeking: int = 0
    pairs: int = 0

    def __add__(self, other: Questions) -> Questions:
        return Questions(
            self.asked + other.asked,
            self.marks + other.marks,
            self.words + other.words,
            self.seeking + other.seeking,
            self.pairs + other.pairs,
        )


def count_questions(text: str, names: Names) -> Questions:
    """Count the questions of one turn.

    Args:
        text: What follows the tag.
        names: The board's names, for questions about pairs.
    """
    asking = [sentence for sentence in _SENTENCES.findall(text) if _asks(sentence.strip())]
    return Questions(
        asked=len(asking),
        marks=text.count("?"),
        words=len(_WORDS.findall(text)),
        seeking=len(_SEEKING.findall(text)),
        pairs=sum(asked_pair(sentence, names) is not None for sentence in asking),
    )


def asked_pair(text: str, names: Names) -> tuple[int, int] | None:
    """The one reviewer and the one paper that a text asks about; None where it does not."""
    found = names.mentioned(text, "reviewer"), names.mentioned(text, "paper")
    if len(found[0]) != 1 or len(found[1]) != 1 or not any(map(_asks, _SENTENCES.findall(text))):
        return None
    return found[0][0], found[1][0]


def total(counts: Iterable[Questions]) -> Questions:
    """The sum of several turns."""
    return sum(counts, Questions())


def _asks(sentence: str) -> bool:
    sentence = sentence.strip()
    return bool(sentence.endswith("?") or _OPENING.match(sentence) or _SEEKING.search(sentence))
