"""An MCP server as anybody might have written it: nothing in it knows of retrain.

python examples/mcp_tools/server.py speaks MCP over standard input and output.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

mcp = FastMCP("arithmetic")

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


@mcp.tool
def calculator(expression: str) -> str:
    """Compute with whole numbers.

    Args:
        expression: Numbers, + - * and parentheses, for example (75 + 99) * 6.
    """
    try:
        return str(_value(ast.parse(expression, mode="eval").body))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ToolError(f"cannot compute {expression!r}") from error


@mcp.tool
def shut_down() -> str:
    """End the server; the configuration denies this tool."""
    raise SystemExit


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("no arithmetic")


if __name__ == "__main__":
    mcp.run(show_banner=False)
