"""LFM2's format, written as Python: `<|tool_call_start|>[name(key="value")]<|tool_call_end|>`."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

from retrain.rendering.parsing.blocks import read_blocks
from retrain.rendering.parsing.call import UnreadableCall
from retrain.rendering.parsing.reasoning import split_reasoning
from retrain.types import Action, ToolCall

OPEN, CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_JSON_NAMES = {"true": True, "false": False, "null": None}
_FAILURES = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)


def parse_lfm2(text: str) -> Action:
    """Read a turn in LFM2's format."""
    return read_blocks(split_reasoning(text), OPEN, CLOSE, _read)


def _read(body: str) -> tuple[ToolCall, ...]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd backslash is the model's own
            tree = ast.parse(_STRING.sub(_on_one_line, body.strip()), mode="eval").body
    except _FAILURES as error:
        raise UnreadableCall(f"not valid Python: {error}".partition(" (<")[0]) from error
    nodes = tree.elts if isinstance(tree, ast.List) else [tree]
    if not nodes:
        raise UnreadableCall("expected a list of calls, found an empty one")
    return tuple(map(_call, nodes))


def _on_one_line(string: re.Match[str]) -> str:
    """A string as Python takes it: some templates break its lines as they are."""
    return string[0].replace("\r", "\\r").replace("\n", "\\n")


def _call(node: ast.expr) -> ToolCall:
    if not isinstance(node, ast.Call):
        raise UnreadableCall("expected calls, as in [name(key=value)]")
    name = _name(node.func)
    if node.args or any(keyword.arg is None for keyword in node.keywords):
        raise UnreadableCall(f"{name} takes its arguments by name, as in {name}(key=value)")
    return ToolCall(name, {str(key.arg): _value(name, key) for key in node.keywords})


def _name(node: ast.expr) -> str:
    """The name of what is called, with dots or without."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise UnreadableCall("expected calls, as in [name(key=value)]")
    return ".".join((node.id, *reversed(parts)))


def _value(name: str, argument: ast.keyword) -> Any:
    """The value of an argument, as JSON has it."""
    try:
        value = ast.literal_eval(_Plain().visit(argument.value))
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        return json.loads(text.encode())
    except _FAILURES as error:
        raise UnreadableCall(f"{name}: {argument.arg} is no plain value") from error


class _Plain(ast.NodeTransformer):
    """Puts Python's constants in place of JSON's."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name that JSON knows."""
        return ast.Constant(_JSON_NAMES[node.id]) if node.id in _JSON_NAMES else node
