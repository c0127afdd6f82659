"""One session with an OpenEnv server, over its WebSocket protocol.

Source: `openenv.core.env_server` of openenv 0.10: requests `{"type": "reset" | "step", "data": …}`,
answers `{"type": "observation", "data": {"observation", "reward", "done"}}` or
`{"type": "error", "data": {"message", "code"}}`; schemas from `GET /schema`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from retrain.connections import load_aiohttp
from retrain.errors import EnvironmentFailure

_FULL = "CAPACITY_REACHED"
_REFUSED = "VALIDATION_ERROR"
_ATTEMPTS = 8
_LARGEST = 100 * 1024 * 1024
"""Most bytes of a message, as OpenEnv's own client."""


class ActionRefused(EnvironmentFailure):
    """The server could not read an action: it does not fit the schema."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says to a reset or a step.

    Attributes:
        observation: The fields of its observation.
        reward: None where it gives none.
        done: Whether the episode is over.
    """

    observation: Mapping[str, Any] = field(default_factory=dict)
    reward: float | None = None
    done: bool = False


class OpenEnvSession:
    """A server's environment for one episode.

    Args:
        base_url: `http://…`, `https://…`, `ws://…` or `wss://…`.
        headers: Sent with every request.
        connect_timeout: Seconds to wait for a connection.
    """

    def __init__(
        self, base_url: str, headers: Mapping[str, str] | None, connect_timeout: float
    ) -> None:
        self._aiohttp = load_aiohttp("OpenEnv servers")
        self._http = base_url.rstrip("/").replace("ws", "http", 1 if base_url[:2] == "ws" else 0)
        self._headers = dict(headers or {})
        self._connect_timeout = connect_timeout
        self._client: Any = None
        self._socket: Any = None

    async def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the server's actions.

        Raises:
            EnvironmentFailure: The server does not answer, or is no OpenEnv server.
        """
        url = f"{self._http}/schema"
        try:
            async with self._opened().get(url) as response:
                if response.status != 200:
                    raise EnvironmentFailure(f"{url} answers {response.status}; no OpenEnv server?")
                schema: Mapping[str, Any] = (await response.json())["action"]
        except (self._aiohttp.ClientError, ValueError, KeyError, TypeError) as error:
            raise EnvironmentFailure(f"{url}: {type(error).__name__}: {error}") from error
        return schema

    async def reset(self, data: Mapping[str, Any]) -> Answer:
        """Open the session and begin an episode; waits a little while the server is full.

        Raises:
            EnvironmentFailure: The server stays full, or refuses.
        """
        for attempt in range(_ATTEMPTS):
            await self._connect()
            came = await self._ask({"type": "reset", "data": dict(data)})
            if _code_of(came) != _FULL:
                return _answer(came)
            await self._disconnect()
            await asyncio.sleep(0.05 * 2**attempt)
        raise EnvironmentFailure(
            f"{self._http}: {came['data'].get('message')}; set rollout.concurrency to at most what "
            "the server takes, or raise its max_concurrent_envs"
        )

    async def step(self, action: Mapping[str, Any]) -> Answer:
        """Take an action.

        Raises:
            ActionRefused: It does not fit the schema.
            EnvironmentFailure: The server failed.
        """
        return _answer(await self._ask({"type": "step", "data": dict(action)}))

    async def close(self) -> None:
        """End the session; harmless where there is none."""
        try:
            await self._disconnect()
        finally:
            client, self._client = self._client, None
            if client is not None:
                await client.close()

    def _opened(self) -> Any:
        if self._client is None:
            timeout = self._aiohttp.ClientTimeout(None, sock_connect=self._connect_timeout)
            self._client = self._aiohttp.ClientSession(headers=self._headers, timeout=timeout)
        return self._client

    async def _connect(self) -> None:
        url = f"{self._http}/ws"
        try:
            self._socket = await self._opened().ws_connect(url, heartbeat=20, max_msg_size=_LARGEST)
        except (self._aiohttp.ClientError, TimeoutError) as error:
            raise EnvironmentFailure(f"{url}: {type(error).__name__}: {error}") from error

    async def _disconnect(self) -> None:
        socket, self._socket = self._socket, None
        if socket is None or socket.closed:
            return
        with suppress(self._aiohttp.ClientError, ConnectionError):
            await socket.send_json({"type": "close"})
        await socket.close()

    async def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        socket = self._socket
        with suppress(ConnectionError):
            await socket.send_json(message)
        came = await socket.receive()
        if came.type is not self._aiohttp.WSMsgType.TEXT:
            raise EnvironmentFailure(
                f"{self._http}: the server ended the session during {message['type']} "
                f"({came.type.name.lower()} {came.data})"
            )
        answer: dict[str, Any] = json.loads(came.data)
        return answer


def _code_of(came: Mapping[str, Any]) -> str | None:
    return came["data"].get("code") if came.get("type") == "error" else None


def _answer(came: Mapping[str, Any]) -> Answer:
    data = came.get("data") or {}
    if came.get("type") == "error":
        kind = ActionRefused if data.get("code") == _REFUSED else EnvironmentFailure
        errors = "; ".join(
            f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg')}"
            for each in data.get("errors", ())
        )
        raise kind(f"server: {data.get('message')} ({data.get('code')}) {errors}".rstrip())
    if came.get("type") != "observation" or not isinstance(data.get("observation"), Mapping):
        raise EnvironmentFailure(f"server: no observation in {json.dumps(came):.100}")
    reward = data.get("reward")
    given = None if reward is None else float(reward)
    return Answer(data["observation"], given, bool(data.get("done")))
