"""GLM 4.5's format.

`<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>`. Values are text of
whatever type: the tool's schema says what they are.
"""

from __future__ import annotations

import re

from retrain.rendering.parsing.blocks import read_arguments, read_blocks
from retrain.rendering.parsing.call import UnreadableCall
from retrain.rendering.parsing.reasoning import split_reasoning
from retrain.types import Action, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_ARGUMENT = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*", re.DOTALL)


def parse_glm45(text: str) -> Action:
    """Read a turn in GLM's format."""
    return read_blocks(split_reasoning(text), OPEN, CLOSE, _read)


def _read(body: str) -> tuple[ToolCall, ...]:
    name, opened, arguments = body.partition("<arg_key>")
    name = name.strip()
    if not name or "<" in name or len(name.split()) > 1:
        raise UnreadableCall("expected the tool's name on the first line")
    expected = f"expected <arg_key>…</arg_key> and <arg_value>…</arg_value> for {name}"
    return (ToolCall(name, read_arguments(opened + arguments, _ARGUMENT, expected)),)
