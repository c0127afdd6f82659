"""What a tool of a TRL environment returned, as the text that the model reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.errors import ToolFailure


def tool_text(name: str, result: Any) -> str:
    """The text of a tool message: `str(result)`, and the text of content blocks.

    Args:
        name: The tool's name, for the message.
        result: What it returned.

    Raises:
        ToolFailure: It returned an image.
    """
    text = join_blocks(result)
    if text is not None:
        return text
    if _are_blocks(result):
        kinds = ", ".join(sorted({str(block["type"]) for block in result}))
        raise ToolFailure(f"tool {name}: returned content of type {kinds}; only text is supported")
    return str(result)


def join_blocks(value: Any) -> str | None:
    """Text, or the joined text of content blocks; None where it is neither."""
    if isinstance(value, str):
        return str(value)
    if _are_blocks(value) and all(block["type"] == "text" for block in value):
        return "".join(str(block.get("text", "")) for block in value)
    return None


def _are_blocks(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(block, Mapping) and "type" in block for block in value)
    )
