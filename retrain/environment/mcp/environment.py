"""`type: mcp`: the model calls the tools of MCP servers until it answers without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from retrain.environment.adapters.loading import require
from retrain.environment.base import ToolSchema
from retrain.environment.mcp.config import FleetSettings, ServerConfig
from retrain.environment.tool_environment import ToolEnvironment
from retrain.environment.toolbox import Toolbox
from retrain.errors import ConfigError
from retrain.threads import DaemonThreads, call_in_thread
from retrain.types import Observation, Task

if TYPE_CHECKING:
    from retrain.environment.mcp.connection import Connection
    from retrain.environment.mcp.fleet import Fleet

_IMPORTING = DaemonThreads(1, "retrain-mcp-import")
"""fastmcp takes seconds to import, for which the event loop does not wait."""


class MCPEnvironment(ToolEnvironment):
    """Offers the tools of MCP servers, and those of `tools` besides.

    The servers are started when the first episode begins, and end with the event loop that plays
    the episodes, however the process ends. What they offer then stands in the prompts of the whole
    run. A server that dies fails the episodes that use it, at the boundary `tool`; where it is
    shared it is started again for those that follow.

    Args:
        servers: By name; see `ServerConfig`.
        isolation: "shared": all episodes of a process use one connection to each server.
            "episode": each has connections of its own, and stdio servers of its own.
        max_restarts: How often in a row a shared server is started again before it has answered a
            call.
        on_tools_changed: What happens where a server offers other tools than when the run started:
            "fail" the episodes that begin then, or "warn".
        **options: As for `ToolEnvironment`. Where a server says that a tool failed, the model reads
            all of it ("message" of `tool_errors`) or that it failed ("type").

    Raises:
        ConfigError: There is no server, or an option is wrong.
        MissingDependency: fastmcp is not installed.
    """

    def __init__(
        self,
        *,
        servers: dict[str, ServerConfig],
        isolation: Literal["shared", "episode"] = "shared",
        max_restarts: int = 3,
        on_tools_changed: Literal["fail", "warn"] = "fail",
        **options: Any,
    ) -> None:
        require("fastmcp", "environment mcp", "retrain[mcp]")
        super().__init__(**options)
        if not servers:
            raise ConfigError("environment.env_specific_config.servers: name at least one server")
        if max_restarts < 0:
            raise ConfigError(
                f"environment.env_specific_config.max_restarts: must not be negative: "
                f"{max_restarts}"
            )
        self._settings = FleetSettings(
            servers=servers,
            isolated=isolation == "episode",
            max_restarts=max_restarts,
            strict=on_tools_changed == "fail",
        )
        self._own = tuple(self.toolbox)
        self._fleet: Fleet | None = None
        self._connections: Mapping[str, Connection] = {}

    async def discover_tools(self) -> Sequence[ToolSchema]:
        """The tools of the servers, which are started for it where they do not run yet."""
        await self._connect()
        return self.toolbox.schemas

    async def reset(self, task: Task, seed: int) -> Observation:
        """Connect, and begin an episode with the task's messages.

        Raises:
            ConfigError: A server cannot be used, and never could; the message names it.
            ToolFailure: A server cannot be used any more, or offers other tools.
            ValueError: The task names a tool that there is not, or has no label to check against.
        """
        await self._connect()
        return await super().reset(task, seed)

    async def close(self) -> None:
        """End the connections that are this episode's own."""
        connections, self._connections = self._connections, {}
        if self._fleet is not None:
            await self._fleet.leave(connections)

    async def _connect(self) -> None:
        if self._connections:
            return
        fleets = await call_in_thread(_IMPORTING, import_module, f"{__package__}.fleet")
        fleet: Fleet = fleets.fleet_of(self._settings)
        self._fleet = fleet
        self._connections = await fleet.connect()
        served = fleet.tools(self._connections)
        self.toolbox = self._offered = Toolbox([*self._own, *served])
