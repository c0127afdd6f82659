"""The result of an MCP call, as the text that the model reads and the images beside it."""

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

from retrain.environment.tool_text import ToolAnswer
from retrain.errors import ToolFailure
from retrain.images import Image


def result_text(tool: str, result: Any) -> ToolAnswer:
    """The text of a result: its text blocks one below the other, else its structured content.

    Args:
        tool: The tool's name, for the message.
        result: The protocol's `CallToolResult`.

    Returns:
        The text; "Error: …" where the tool says that it failed.

    Raises:
        ToolFailure: It holds a sound, or an image that cannot be used.
    """
    images = [block for block in result.content if isinstance(block, ImageContent)]
    parts = [_text(tool, block) for block in result.content if block not in images]
    if not parts and not images and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = "\n".join(parts)
    shown = tuple(_image(tool, block) for block in images)
    return ToolAnswer(f"Error: {text}" if result.is_error else text, shown)


def _image(tool: str, block: ImageContent) -> Image:
    try:
        return Image.of(f"data:{block.mime_type};base64,{block.data}")
    except ValueError as error:
        raise ToolFailure(f"tool {tool}: returned an image that cannot be used: {error}") from error


def _text(tool: str, block: Any) -> str:
    if isinstance(block, TextContent):
        return str(block.text)
    if isinstance(block, ResourceLink):
        return f"[{block.name}: {block.uri}]"
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        return str(block.resource.text)
    raise ToolFailure(
        f"tool {tool}: returned content of type {block.type}; a reply is text and images: have the "
        "server describe it, or deny the tool"
    )
