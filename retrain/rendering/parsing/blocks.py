"""Calls that stand between two tags, and the text around them."""

from __future__ import annotations

import re
from collections.abc import Callable

from retrain.rendering.parsing.call import UnreadableCall
from retrain.rendering.parsing.channels import joined
from retrain.rendering.parsing.reasoning import Reasoning
from retrain.types import Action, ToolCall

ReadBlock = Callable[[str], tuple[ToolCall, ...]]
"""Reads what stands between the tags; raises `UnreadableCall`."""


def read_blocks(turn: Reasoning, opening: str, closing: str, read: ReadBlock) -> Action:
    """Read all blocks of a turn.

    Calls that can be read are kept next to a `parse_error` about one that cannot. Text before,
    between and after the blocks is the action's text.

    Args:
        turn: The turn, its reasoning cut off.
        opening: What stands before each block.
        closing: What stands behind it.
        read: Reads one.
    """
    if turn.unfinished and opening in turn.reasoning:
        error = "the tool call stands inside a block of reasoning that never ends"
        return Action(reasoning=turn.reasoning, parse_error=error)
    kept, *blocks = turn.rest.split(opening)
    texts, calls, errors = [kept], list[ToolCall](), list[str]()
    for number, block in enumerate(blocks, start=1):
        body, closed, behind = block.partition(closing)
        try:
            if not closed:
                raise UnreadableCall(f"no {closing} behind it")
            calls += read(body)
        except UnreadableCall as error:
            errors.append(f"tool call {number}: {error}")
        texts.append(behind)
    return Action(joined(texts), turn.reasoning, tuple(calls), "; ".join(errors) or None)


def read_arguments(body: str, argument: re.Pattern[str], expected: str) -> dict[str, str]:
    """Read arguments that the format writes as text, of whatever type they are.

    Args:
        body: Nothing but arguments, one behind the other.
        argument: Matches one of them, its name and its value the groups.
        expected: What to say where something else stands there.

    Raises:
        UnreadableCall: Something else stands there, or a name is empty or stands there twice.
    """
    arguments: dict[str, str] = {}
    position, end = 0, len(body.rstrip())
    while position < end:
        found = argument.match(body, position)
        if found is None:
            raise UnreadableCall(expected)
        name = found[1].strip()
        if not name:
            raise UnreadableCall("an argument has no name")
        if name in arguments:
            raise UnreadableCall(f"the argument {name!r} stands there twice")
        arguments[name] = found[2]
        position = found.end()
    return arguments
