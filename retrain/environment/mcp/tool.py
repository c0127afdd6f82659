"""`ServerTool`: a tool of an MCP server, bound to one episode's connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.environment.argument_types import typed_arguments
from retrain.environment.base import ToolSchema
from retrain.environment.mcp.arguments import argument_problems
from retrain.environment.mcp.connection import Connection
from retrain.environment.mcp.offer import OfferedTool
from retrain.environment.mcp.results import result_text
from retrain.environment.mcp.server import Server
from retrain.environment.tool_errors import ToolErrors
from retrain.environment.tool_text import ToolAnswer
from retrain.errors import ToolFailure, boundary


class ServerTool:
    """A tool that a server runs.

    Args:
        offered: What the server says of it.
        server: The server.
        connection: The episode's connection to it.
    """

    serial = False

    def __init__(self, offered: OfferedTool, server: Server, connection: Connection) -> None:
        self._offered = offered
        self._server = server
        self._connection = connection

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self._offered.name

    @property
    def schema(self) -> ToolSchema:
        """The tool as chat templates take it."""
        return self._offered.schema

    async def run(
        self, arguments: Mapping[str, Any], *, timeout: float | None, errors: ToolErrors
    ) -> str:
        """Check the model's arguments, call the server, and give the text that the model reads.

        Args:
            arguments: By name, as the model wrote them.
            timeout: Seconds, where the server's configuration says none.
            errors: What the model reads where the server says that the tool failed.

        Raises:
            ToolFailure: The server hung, ended or flooded, or answered what is no text.
        """
        typed = typed_arguments(self.schema, arguments)
        async with boundary(ToolFailure, f"tool {self.name}"):
            wrong = argument_problems(self._offered.validator, typed)
        if wrong:
            return f"Error: bad arguments for {self.name}: " + "; ".join(wrong)
        limit = self._server.config.timeout or timeout
        result = await self._connection.call(self._offered.own_name, typed, limit)
        self._server.answered()
        if result.is_error and errors is ToolErrors.TYPE:
            return f"Error: {self.name} failed"
        answer = result_text(self.name, result)
        text = ToolAnswer(self._connection.blot(answer), answer.images)
        if result.is_error and errors is ToolErrors.FAIL:
            raise ToolFailure(f"tool {self.name}: {text:.500}")
        return text
