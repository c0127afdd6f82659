"""Gemma 4's format: `<|tool_call>call:NAME{key:value,…}<tool_call|>`, strings between `<|"|>`.

Reasoning stands between `<|channel>thought` and `<channel|>`.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

from retrain.rendering.parsing.blocks import read_blocks
from retrain.rendering.parsing.call import UnreadableCall
from retrain.rendering.parsing.reasoning import Reasoning
from retrain.types import Action, ToolCall

OPEN, CLOSE = "<|tool_call>", "<tool_call|>"
_THINK, _THOUGHT = "<|channel>", "<channel|>"
_QUOTE = '<|"|>'
_CALL = re.compile(r"\s*call:([^\s{}:,]+)")
_NAME = re.compile(r'\s*([^\s{}\[\]:,"]+)\s*:')
_PLAIN = re.compile(r"\s*([^\s{}\[\]:,<]+)")
_CONSTANTS = {"true": True, "false": False, "null": None, "None": None}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_SPACE = re.compile(r"\s*")
_DEEPEST = 100
_LONGEST = 400
"""Characters of a number."""


def parse_gemma4(text: str) -> Action:
    """Read a turn in Gemma 4's format."""
    return read_blocks(_split(text), OPEN, CLOSE, _read)


def _split(text: str) -> Reasoning:
    body = text.lstrip()
    if not body.startswith(_THINK):
        return Reasoning("", text)
    inner, closed, after = body.removeprefix(_THINK).partition(_THOUGHT)
    reasoning = inner.removeprefix("thought").strip()
    return Reasoning(reasoning, after, unfinished=not closed)


def _read(body: str) -> tuple[ToolCall, ...]:
    called = _CALL.match(body)
    if called is None:
        raise UnreadableCall("expected call:NAME{…}")
    reader = _Reader(body, called.end())
    arguments = reader.mapping(0)
    if body[reader.at :].strip():
        raise UnreadableCall(f"there is text behind the arguments of {called[1]}")
    return (ToolCall(called[1], arguments),)


class _Reader:
    """Reads values, from left to right."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def mapping(self, depth: int) -> dict[str, Any]:
        """Read `{name:value,…}`."""
        self._expect("{")
        values: dict[str, Any] = {}
        while not self._comes("}"):
            if values:
                self._expect(",")
            name = self._name()
            values[name] = self._value(depth)
        return values

    def _value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise UnreadableCall("the arguments are nested too deeply")
        if self._comes(_QUOTE):
            return self._quoted()
        if self._text[self.at : self.at + 1] == "{":
            return self.mapping(depth + 1)
        return self._list(depth) if self._comes("[") else self._plain()

    def _quoted(self) -> str:
        start, end = self.at, self._text.find(_QUOTE, self.at)
        if end < 0:
            raise UnreadableCall(f"a text has no {_QUOTE} at its end")
        self.at = end + len(_QUOTE)
        return self._text[start:end]

    def _list(self, depth: int) -> list[Any]:
        values: list[Any] = []
        while not self._comes("]"):
            if values:
                self._expect(",")
            values.append(self._value(depth + 1))
        return values

    def _name(self) -> str:
        if self._comes(_QUOTE):
            name = self._quoted()
            self._expect(":")
            return name
        found = _NAME.match(self._text, self.at)
        if found is None:
            raise UnreadableCall(f"expected name:value at character {self.at}")
        self.at = found.end()
        return found[1]

    def _plain(self) -> Any:
        found = _PLAIN.match(self._text, self.at)
        if found is None:
            raise UnreadableCall(f"expected a value at character {self.at}")
        word, self.at = found[1], found.end()
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if len(word) < _LONGEST and _NUMBER.fullmatch(word) and isfinite(float(word)):
            return json.loads(word)
        raise UnreadableCall(f"{word!r:.40} is no value; texts stand between {_QUOTE}")

    def _comes(self, mark: str) -> bool:
        self.at = _SPACE.match(self._text, self.at).end()  # type: ignore[union-attr]
        found = self._text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def _expect(self, mark: str) -> None:
        if not self._comes(mark):
            raise UnreadableCall(f"expected {mark!r} at character {self.at}")
