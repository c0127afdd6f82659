"""`gpqa`: the letter that a response chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from retrain.errors import RewardFailure
from retrain.reward.hub.boxed import last_boxed
from retrain.reward.hub.cases import Case, Compat, answer_of, shown
from retrain.reward.hub.slime_gpqa import slime_gpqa

_LETTERS = "ABCDEFGHIJ"
_AROUND = r"[\s*_\"'`$(\[{:=]*"
_STATED = re.compile(
    rf"\b(?:answer|option|choice)\b(?:\s+(?:is|should\s+be|option|choice)\b|\s*[:=-])*{_AROUND}"
    r"(?:\\(?:text|mathrm|boxed|textbf)\{\s*)?\(?([A-Z])\b(?![A-Za-z])",
    re.IGNORECASE,
)
_CORRECT = re.compile(r"\(?\b([A-Z])\b[)*]*\s+is\s+(?:the\s+)?(?:correct|right)\b")
_LONE = re.compile(r"^[\s*_(\[\"'`$]*([A-Za-z])[\s*_)\].:\"'`$]*$")
_CAPITAL = re.compile(r"(?<![A-Za-z0-9'\u2019])([A-Z])(?![A-Za-z0-9'\u2019])(?!\s+[a-z])")
_WORDS = re.compile(r"[\W_]+")


def gpqa(case: Case, *, compat: Compat | None = None) -> float:
    r"""1.0 where the response chooses the right letter; else 0.0.

    What follows `</think>` counts. The choice is, in this order, a letter in a box, the last
    "answer is B" or "B is correct", a letter alone on the last line, the text of exactly one of the
    choices, the last capital letter that stands alone. Where label and metadata hold only the right
    answer's text, the response is right where it has that text.

    Args:
        case: The response; the label is a letter, the number of a choice from 0, or a choice's
            text. Metadata may hold `choices`, `valid_letters`, `correct_letter`, `correct_answer`.
        compat: "slime" for the scores of slime's `gpqa`.

    Raises:
        RewardFailure: Label and metadata name no right choice.
    """
    if compat == "slime":
        return slime_gpqa(case.response, case.label, case.metadata or {})
    metadata = case.metadata or {}
    choices = _choices(metadata)
    letters = _valid_letters(metadata, choices)
    right = _right_letter(case, letters, choices)
    reply = answer_of(case)
    if right is None:
        return float(_names(reply, _right_text(case, letters)))
    return float(_chosen(reply, letters, choices) == right)


def _choices(metadata: Mapping[str, Any]) -> list[str]:
    given = metadata.get("choices") or []
    given = list(given.values()) if isinstance(given, Mapping) else given
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise RewardFailure(f"gpqa needs `choices` to be a list, got {shown(given)}")
    return [str(choice) for choice in given]


def _valid_letters(metadata: Mapping[str, Any], choices: Sequence[str]) -> list[str]:
    given = metadata.get("valid_letters")
    if given:
        if not isinstance(given, str | Sequence):
            raise RewardFailure(f"gpqa needs `valid_letters` to be a list, got {shown(given)}")
        return [str(letter).strip().upper() for letter in given]
    return [chr(ord("A") + i) for i in range(min(len(choices), 26))] or list(_LETTERS)


def _right_letter(case: Case, letters: Sequence[str], choices: Sequence[str]) -> str | None:
    metadata = case.metadata or {}
    for value in (metadata.get("correct_letter"), case.label, metadata.get("correct_answer")):
        found = _letter_of(value, letters, choices)
        if found is not None:
            return found
    return None


def _right_text(case: Case, letters: Sequence[str]) -> str:
    label = case.label
    for text in ((case.metadata or {}).get("correct_answer"), label):
        if isinstance(text, str) and len(_folded(text)) > 1:
            return text
    raise RewardFailure(
        f"gpqa finds no right choice in the label {shown(label)} and the metadata: expected one of "
        f"{', '.join(letters)}, the number of a choice, or its text"
    )


def _letter_of(value: Any, letters: Sequence[str], choices: Sequence[str]) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        at = int(value) if value == value and abs(value) < len(letters) else -1
        return letters[at] if at == value and at >= 0 else None
    if not isinstance(value, str):
        return None
    if (letter := value.strip(" ()[]{}.:*$'\"\t\n").upper()) in letters:
        return letter
    texts = [_folded(choice) for choice in choices]
    wanted = _folded(value)
    return letters[texts.index(wanted)] if wanted and wanted in texts[: len(letters)] else None


def _chosen(reply: str, letters: Sequence[str], choices: Sequence[str]) -> str | None:
    boxed = last_boxed(reply)
    if boxed is not None:
        return _letter_of(re.sub(r"\\\w+|[{}]", " ", boxed), letters, choices)
    stated = [m for pattern in (_STATED, _CORRECT) for m in pattern.finditer(reply)]
    for match in sorted(stated, key=lambda m: m.end(1), reverse=True):
        if match.group(1).upper() in letters and _meant(match.group(1), reply, match.end(1)):
            return match.group(1).upper()
    lines = reply.strip().splitlines()
    lone = _LONE.match(lines[-1]) if lines else None
    if lone and lone.group(1).upper() in letters:
        return lone.group(1).upper()
    named = [i for i, choice in enumerate(choices) if _names(reply, choice)]
    if len(named) == 1 and named[0] < len(letters):
        return letters[named[0]]
    capitals = [letter for letter in _CAPITAL.findall(reply) if letter in letters]
    return capitals[-1] if capitals else None


def _meant(letter: str, reply: str, end: int) -> bool:
    """Whether a letter is a choice and not the word "a" or "I" of a sentence."""
    return letter not in "aAiI" or re.match(r"\s+[a-z]", reply[end : end + 20]) is None


def _names(reply: str, choice: str) -> bool:
    wanted = _folded(choice)
    return bool(wanted) and f" {wanted} " in f" {_folded(reply)} "


def _folded(text: str) -> str:
    return _WORDS.sub(" ", text).strip().casefold()
