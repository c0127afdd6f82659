"""The result of an MCP call, as the text that the model reads."""

from __future__ import annotations

import json
from typing import Any

from mcp_types import (
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from retrain.errors import ToolFailure


def result_text(tool: str, result: Any) -> str:
    """The text of a result: its text blocks one below the other, else its structured content.

    Args:
        tool: The tool's name, for the message.
        result: The protocol's `CallToolResult`.

    Returns:
        The text; "Error: …" where the tool says that it failed.

    Raises:
        ToolFailure: It holds an image or a sound.
    """
    parts = [_text(tool, block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = "\n".join(parts)
    return f"Error: {text}" if result.is_error else text


def _text(tool: str, block: Any) -> str:
    if isinstance(block, TextContent):
        return str(block.text)
    if isinstance(block, ResourceLink):
        return f"[{block.name}: {block.uri}]"
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        return str(block.resource.text)
    kind = "an image" if isinstance(block, ImageContent) else f"content of type {block.type}"
    raise ToolFailure(
        f"tool {tool}: returned {kind}; a reply is text: have the server describe it, or deny the "
        "tool"
    )
