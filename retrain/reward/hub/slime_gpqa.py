"""What slime's `gpqa` gives, found from its scores.

The first "answer", "option" or "choice" with a letter behind it wins, also where the letter begins
a word: "The answer is **B**" chooses I where I is valid. A text that contains the right choice's
text is right where no valid letter was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_LETTERS = tuple("ABCDEFGHIJ")
_STATED = (
    re.compile(r"(?:answer|option|choice)\s*(?:is|:)?\s*([A-Z])", re.IGNORECASE),
    re.compile(r"([A-Z])\s*is\s*(?:the\s*)?correct", re.IGNORECASE),
    re.compile(r"final\s*answer\s*(?:is|:)?\s*([A-Z])", re.IGNORECASE),
)
_CAPITAL = re.compile(r"\b([A-Z])\b")
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def slime_gpqa(response: Any, label: Any, metadata: Mapping[str, Any]) -> float:
    """1.0 or 0.0; what is not text raises as it does there."""
    if response is None:
        return 0.0
    choices = _choices(metadata.get("choices"))
    letters = _letters(metadata.get("valid_letters"), choices)
    right = _right_letter(label, metadata, letters, choices)
    reply = response.split("</think>")[-1] if "</think>" in response else response
    chosen = _chosen(reply, letters)
    if chosen is not None and right is not None:
        return float(chosen == right)
    said = _plain(reply)
    texts = map(_plain, _right_texts(label, metadata, right, letters, choices))
    return float(any(text and text in said for text in texts))


def _choices(given: Any) -> list[Any]:
    if isinstance(given, Mapping):
        return list(given.values())
    return [] if given is None else list(given)


def _letters(given: Any, choices: Sequence[Any]) -> Sequence[str]:
    if given:
        return [str(letter).upper() for letter in given]
    return [chr(ord("A") + i) for i in range(len(choices))] or _LETTERS


def _right_letter(
    label: Any, metadata: Mapping[str, Any], letters: Sequence[str], choices: Sequence[Any]
) -> str | None:
    if isinstance(label, int | float):
        at = int(label)
        if 0 <= at < len(letters):
            return letters[at]
    given = metadata.get("correct_letter")
    if isinstance(given, str) and given.strip():
        return given.strip().upper()
    if not isinstance(label, str):
        return None
    if label.strip().upper() in letters:
        return label.strip().upper()
    texts = list(map(_plain, choices))
    at = texts.index(_plain(label)) if _plain(label) in texts else len(letters)
    return letters[at] if at < len(letters) else None


def _chosen(reply: str, letters: Sequence[str]) -> str | None:
    for pattern in _STATED:
        match = pattern.search(reply)
        if match and match.group(1).upper() in letters:
            return match.group(1).upper()
    capitals = [letter for letter in _CAPITAL.findall(reply) if letter in letters]
    return capitals[-1] if capitals else None


def _right_texts(
    label: Any,
    metadata: Mapping[str, Any],
    right: str | None,
    letters: Sequence[str],
    choices: Sequence[Any],
) -> list[Any]:
    texts = [metadata.get("correct_answer")]
    if isinstance(label, str):
        texts.append(label)
    if right in letters and letters.index(right) < len(choices):
        texts.append(choices[letters.index(right)])
    return [text for text in texts if text is not None]


def _plain(text: Any) -> str:
    return _NOT_PLAIN.sub(" ", str(text).lower()).strip()
