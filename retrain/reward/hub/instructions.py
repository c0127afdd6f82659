"""Instructions that `ifbench` can check, by the names that IFBench gives them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

Arguments: TypeAlias = Mapping[str, Any]
Check: TypeAlias = Callable[[str, Arguments], bool]

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_MARKS = str.maketrans("", "", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_KEYWORD_TIMES = {"keyword1": 1, "keyword2": 2, "keyword3": 3, "keyword4": 5, "keyword5": 7}
_PUNCTUATION = (".", ",", "!", "?", ";", ":")
_PALINDROMES, _PALINDROME_LETTERS = 10, 5


def words(response: str) -> list[str]:
    """The words of a text, in order; an apostrophe or a hyphen inside belongs to a word."""
    return _WORD.findall(response)


def _word_count(response: str, given: Arguments) -> bool:
    return int(given["min_words"]) <= len(words(response)) <= int(given["max_words"])


def _keywords(response: str, given: Arguments) -> bool:
    text = response.casefold()
    return all(
        len(re.findall(rf"\b{re.escape(str(given[key]).casefold())}\b", text)) == times
        for key, times in _KEYWORD_TIMES.items()
    )


def _punctuation(response: str, given: Arguments) -> bool:
    interrobang = any(mark in response for mark in ("?!", "!?", "‽"))
    return interrobang and all(mark in response for mark in _PUNCTUATION)


def _numbers(response: str, given: Arguments) -> bool:
    return len(re.findall(r"\d+", response.translate(_MARKS))) == int(given["N"])


def _list(response: str, given: Arguments) -> bool:
    lines = [line.strip() for line in response.splitlines() if line.strip()]
    return sum(line.startswith(str(given["sep"])) for line in lines) > 1


def _no_whitespace(response: str, given: Arguments) -> bool:
    return not any(character.isspace() for character in response)


def _palindromes(response: str, given: Arguments) -> bool:
    found = {w for w in map(str.casefold, words(response)) if w == w[::-1]}
    return sum(len(word) >= _PALINDROME_LETTERS for word in found) >= _PALINDROMES


def _repeats(response: str, given: Arguments) -> bool:
    counts = Counter(map(str.casefold, words(response)))
    return max(counts.values(), default=0) <= int(given["small_n"])


def _alphabet(response: str, given: Arguments) -> bool:
    first = [word[0] for word in map(str.casefold, words(response))]
    if not first or not all("a" <= letter <= "z" for letter in first):
        return False
    steps = pairwise(first)
    return all((ord(b) - ord(a)) % 26 == 1 for a, b in steps)


def _new_lines(response: str, given: Arguments) -> bool:
    return all(len(line.split()) <= 1 for line in response.splitlines())


def _multiples(response: str, given: Arguments) -> bool:
    return [int(n) for n in re.findall(r"\d{1,9}", response)] == [14, 21, 28, 35, 42, 49]


INSTRUCTIONS: Mapping[str, Check] = {
    "count:word_count_range": _word_count,
    "count:keywords_multiple": _keywords,
    "count:punctuation": _punctuation,
    "count:numbers": _numbers,
    "format:list": _list,
    "format:no_whitespace": _no_whitespace,
    "words:palindrome": _palindromes,
    "words:repeats": _repeats,
    "words:alphabet": _alphabet,
    "format:newline": _new_lines,
    "custom:multiples": _multiples,
}
"""A check by name: (response, arguments) -> whether it is followed."""
