"""Llama 3's JSON format: `{"name": …, "parameters": {…}}`, alone or behind `<|python_tag|>`."""

from __future__ import annotations

import re

from retrain.rendering.parsing.call import UnreadableCall, read_call, read_object
from retrain.rendering.parsing.reasoning import split_reasoning
from retrain.types import Action, ToolCall

TAG = "<|python_tag|>"
_ATTEMPT = re.compile(r'\{\s*"(?:name"\s*:|type"\s*:\s*"function")')
_SEPARATOR = re.compile(r"\s*;?\s*(?=\{)")


def parse_llama3(text: str) -> Action:
    """Read a turn in Llama 3's format.

    The format has no marks of its own, so a turn is a call where it looks like one: behind the
    tag anything must be, else an object that begins with a name and holds parameters, or that
    breaks off. Several calls are separated by `;`; text behind the last is the action's text.
    """
    turn = split_reasoning(text)
    body = turn.rest.strip()
    tagged = body.startswith(TAG)
    body = body.removeprefix(TAG).lstrip()
    if not tagged and not _ATTEMPT.match(body):
        return Action(body, turn.reasoning)
    try:
        calls, behind = _read_calls(body, tagged)
    except UnreadableCall as error:
        return Action("", turn.reasoning, parse_error=str(error))
    if not calls and tagged:
        return Action("", turn.reasoning, parse_error=f"no tool call behind {TAG}")
    return Action(body[behind:].strip(" ;\n"), turn.reasoning, calls)


def _read_calls(body: str, tagged: bool) -> tuple[tuple[ToolCall, ...], int]:
    """Read calls from the beginning of `body` on, and say where the last one ends."""
    calls: list[ToolCall] = []
    position = 0
    while position < len(body):
        try:
            value, position = read_object(body, position)
            if not (tagged or calls or "parameters" in value):
                return (), 0
            calls.append(read_call(value, "parameters"))
        except UnreadableCall as error:
            raise UnreadableCall(f"tool call {len(calls) + 1}: {error}") from error
        separator = _SEPARATOR.match(body, position)
        if separator is None:
            break
        position = separator.end()
    return tuple(calls), position
