"""GLM 4.5's format.

`<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>`. Values are text of
whatever type: the tool's schema says what they are.
"""

from __future__ import annotations

import re

from retrain.rendering.parsing.blocks import add_argument, read_blocks
from retrain.rendering.parsing.call import UnreadableCall
from retrain.rendering.parsing.reasoning import split_reasoning
from retrain.types import Action, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_ARGUMENT = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*", re.DOTALL)


def parse_glm45(text: str) -> Action:
    """Read a turn in GLM's format."""
    return read_blocks(split_reasoning(text), OPEN, CLOSE, _read)


def _read(body: str) -> tuple[ToolCall, ...]:
    name, opened, _ = body.partition("<arg_key>")
    position = len(name) if opened else len(body)
    name = name.strip()
    if not name or "<" in name or len(name.split()) > 1:
        raise UnreadableCall("expected the tool's name on the first line")
    arguments: dict[str, str] = {}
    while position < len(body):
        argument = _ARGUMENT.match(body, position)
        if argument is None:
            raise UnreadableCall(
                f"expected <arg_key>…</arg_key> and <arg_value>…</arg_value> for {name}"
            )
        add_argument(arguments, argument[1].strip(), argument[2])
        position = argument.end()
    return (ToolCall(name, arguments),)
