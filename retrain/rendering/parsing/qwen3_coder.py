"""Qwen3-Coder's, Qwen3.5's and Nemotron 3's format.

`<tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>`, each tag on a
line of its own. Values are text of whatever type: the tool's schema says what they are.
"""

from __future__ import annotations

import re

from retrain.rendering.parsing.blocks import read_arguments, read_blocks
from retrain.rendering.parsing.call import UnreadableCall
from retrain.rendering.parsing.reasoning import split_reasoning
from retrain.types import Action, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"\s*<function=([^<>\s]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^<>]*)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)


def parse_qwen3_coder(text: str) -> Action:
    """Read a turn in Qwen3-Coder's format."""
    return read_blocks(split_reasoning(text), OPEN, CLOSE, _read)


def _read(body: str) -> tuple[ToolCall, ...]:
    function = _FUNCTION.fullmatch(body)
    if function is None:
        raise UnreadableCall("expected <function=NAME>…</function>")
    name, inner = function.groups()
    expected = f"expected <parameter=NAME>…</parameter> for {name}"
    return (ToolCall(name, read_arguments(inner, _PARAMETER, expected)),)
