"""Muse Glimmer's format: messages to `self` (reasoning), to `user` (text) and to tools.

`to=NAME<|message|><atem:function_calls><atem:invoke name="NAME"><atem:parameter name="KEY">VALUE…`.
Values are text of whatever type: the tool's schema says what they are.
"""

from __future__ import annotations

import re

from retrain.rendering.parsing.blocks import read_arguments
from retrain.rendering.parsing.call import UnreadableCall
from retrain.rendering.parsing.channels import Part, joined, split_channels
from retrain.types import Action, ToolCall

_CALLS = re.compile(r"\s*<atem:function_calls>(.*)</atem:function_calls>\s*", re.DOTALL)
_INVOKE = re.compile(r'\s*<atem:invoke name="([^"<>]+)">(.*?)</atem:invoke>\s*', re.DOTALL)
_PARAMETER = re.compile(r'\s*<atem:parameter name="([^"<>]*)">(.*?)</atem:parameter>\s*', re.DOTALL)


def parse_muse(text: str) -> Action:
    """Read a turn in Muse Glimmer's format; one without any header is text."""
    reasoning, texts = list[str](), list[str]()
    calls, errors = list[ToolCall](), list[str]()
    for part in split_channels(text):
        if part.recipient == "self":
            reasoning.append(part.body)
        elif part.recipient in ("", "user"):
            texts.append(part.body if part.whole else part.header)
        else:
            try:
                calls += _calls(part)
            except UnreadableCall as error:
                errors.append(f"tool call {len(calls) + len(errors) + 1}: {error}")
    return Action(joined(texts), joined(reasoning), tuple(calls), "; ".join(errors) or None)


def _calls(part: Part) -> list[ToolCall]:
    block = _CALLS.fullmatch(part.body)
    if block is None:
        raise UnreadableCall("expected <atem:function_calls>…</atem:function_calls>")
    calls, position = list[ToolCall](), 0
    while position < len(block[1]):
        invoke = _INVOKE.match(block[1], position)
        if invoke is None:
            raise UnreadableCall('expected <atem:invoke name="NAME">…</atem:invoke>')
        calls.append(ToolCall(invoke[1], _arguments(*invoke.groups())))
        position = invoke.end()
    return calls


def _arguments(name: str, body: str) -> dict[str, str]:
    expected = f'{name}: expected <atem:parameter name="NAME">…</atem:parameter>'
    return read_arguments(body, _PARAMETER, expected)
