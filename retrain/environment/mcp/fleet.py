"""`Fleet`: the MCP servers of a configuration, as long as the event loop that uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from weakref import WeakKeyDictionary

from retrain.environment.mcp.config import FleetSettings
from retrain.environment.mcp.connection import Connection
from retrain.environment.mcp.offer import OfferedTool, join_offers
from retrain.environment.mcp.server import Server
from retrain.environment.mcp.tool import ServerTool


class Fleet:
    """All servers of a configuration on one event loop.

    Connections are tasks of that loop: they end with it, and take the servers along.
    """

    def __init__(self, settings: FleetSettings) -> None:
        self.servers = {
            name: Server(
                name,
                config,
                isolated=settings.isolated,
                max_restarts=settings.max_restarts,
                strict=settings.strict,
            )
            for name, config in settings.servers.items()
        }

    async def connect(self) -> dict[str, Connection]:
        """A connection to each server, for one episode.

        Raises:
            ConfigError: A server cannot be used, and never could.
            ToolFailure: A server cannot be used any more.
        """
        jobs = [asyncio.ensure_future(server.connect()) for server in self.servers.values()]
        try:
            made = await asyncio.gather(*jobs)
        except BaseException:
            await self._give_up(jobs)
            raise
        return dict(zip(self.servers, made, strict=True))

    async def leave(self, connections: Mapping[str, Connection]) -> None:
        """End an episode's use of its connections."""
        leaving = (self.servers[name].leave(one) for name, one in connections.items())
        await asyncio.gather(*leaving, return_exceptions=True)

    def tools(self, connections: Mapping[str, Connection]) -> list[ServerTool]:
        """The tools of all servers, as they were when each was first connected, for one episode.

        Args:
            connections: What `connect` gave.

        Raises:
            ConfigError: Two servers have a tool of one name.
        """
        offers: dict[str, Sequence[OfferedTool]] = {
            name: server.offer or () for name, server in self.servers.items()
        }
        return [
            ServerTool(tool, self.servers[tool.server], connections[tool.server])
            for tool in join_offers(offers)
        ]

    async def _give_up(self, jobs: Sequence[asyncio.Future[Connection]]) -> None:
        for job in jobs:
            job.cancel()
        outcomes = await asyncio.gather(*jobs, return_exceptions=True)
        named = zip(self.servers, outcomes, strict=True)
        await self.leave({name: one for name, one in named if isinstance(one, Connection)})


_FLEETS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, Fleet]] = WeakKeyDictionary()


def fleet_of(settings: FleetSettings) -> Fleet:
    """The running event loop's fleet for these settings, made when it is first asked for."""
    fleets = _FLEETS.setdefault(asyncio.get_running_loop(), {})
    if settings.key not in fleets:
        fleets[settings.key] = Fleet(settings)
    return fleets[settings.key]
