"""An MCP server: nothing in it knows of retrain.

python server.py speaks MCP over standard input and output.
"""

from fastmcp import FastMCP

mcp = FastMCP("sums")


@mcp.tool
def add(first: int, second: int) -> int:
    """Add two whole numbers.

    Args:
        first: One.
        second: The other.
    """
    return first + second


if __name__ == "__main__":
    mcp.run(show_banner=False)
