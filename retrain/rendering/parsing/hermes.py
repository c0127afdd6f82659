"""Hermes' and Qwen's format: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`."""

from __future__ import annotations

from retrain.rendering.parsing.call import UnreadableCall, read_call, read_object
from retrain.rendering.parsing.reasoning import split_reasoning
from retrain.types import Action, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def parse_hermes(text: str) -> Action:
    """Read a turn in Hermes' format.

    Calls that can be read are kept next to a `parse_error` about one that cannot. Text before,
    between and after the calls is the action's text.
    """
    turn = split_reasoning(text)
    if turn.unfinished and OPEN in turn.reasoning:
        error = "the tool call stands inside a <think> block that never ends"
        return Action(reasoning=turn.reasoning, parse_error=error)
    kept: list[str] = []
    calls: list[ToolCall] = []
    errors: list[str] = []
    position = number = 0
    while (start := turn.rest.find(OPEN, position)) >= 0:
        kept.append(turn.rest[position:start].strip())
        number += 1
        try:
            call, position = _read(turn.rest, start + len(OPEN))
            calls.append(call)
        except UnreadableCall as error:
            errors.append(f"tool call {number}: {error}")
            position = _behind(turn.rest, start + len(OPEN))
    kept.append(turn.rest[position:].strip())
    content = "\n".join(part for part in kept if part)
    return Action(content, turn.reasoning, tuple(calls), "; ".join(errors) or None)


def _read(text: str, start: int) -> tuple[ToolCall, int]:
    """Read one call and its closing tag.

    The object is read first: its strings may hold the closing tag.
    """
    value, end = read_object(text, start)
    call = read_call(value, "arguments")
    rest = text[end:].lstrip()
    if not rest.startswith(CLOSE):
        raise UnreadableCall(f"no {CLOSE} behind the JSON object")
    return call, len(text) - len(rest) + len(CLOSE)


def _behind(text: str, start: int) -> int:
    """Where to read on behind a call that cannot be read."""
    end = text.find(CLOSE, start)
    return len(text) if end < 0 else end + len(CLOSE)
