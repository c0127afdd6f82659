"""New weights for SGLang servers, from a folder that they can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrain.engine.http_client import HttpClient, ServerFault
from retrain.errors import EngineFailure

_NOT_FOUND = 404
_UPDATE_SECONDS = 3600.0


class SGLangWeights:
    """Loads weights into servers, and remembers which ones they must have.

    Attributes:
        version: What the servers have, or must have.
    """

    def __init__(self, client: HttpClient) -> None:
        """Take the engine's client.

        Args:
            client: Sends the requests.
        """
        self.version = "0"
        self._client = client
        self._path: str | None = None

    def expect(self, path: str, version: str) -> None:
        """Say what every server must have from now on."""
        self._path, self.version = path, version

    async def catch_up(self, urls: Sequence[str]) -> None:
        """Load the expected weights into the servers that have others, because they came back.

        Before the first update nothing is expected, and their own version is taken as it is.

        Args:
            urls: A server, or the workers behind a router.

        Raises:
            EngineFailure: A server cannot load them.
        """
        versions = {url: await self._served(url) for url in urls}
        if self._path is None:
            self.version = next(iter(versions.values()), self.version)
            return
        await self.load_into([url for url, served in versions.items() if served != self.version])

    async def load_into(self, urls: Sequence[str]) -> None:
        """Load the expected weights, whatever version the servers say that they have.

        Raises:
            EngineFailure: A server cannot load them.
        """
        for url in urls:
            await self._load(url, str(self._path), self.version)

    async def _load(self, url: str, path: str, version: str) -> None:
        """Pause one server, load weights, check that its version moved, and go on.

        Raises:
            EngineFailure: It refused, or its version is another one than `version` afterwards.
        """
        await self._post(url, "pause_generation", {"mode": "abort"})
        try:
            await self._client.ask("GET", f"{url}/flush_cache", timeout=_UPDATE_SECONDS)
            body = {"model_path": path, "weight_version": version}
            await self._post(url, "update_weights_from_disk", body)
            served = await self._served(url)
        finally:
            await self._post(url, "continue_generation", {})
        if served != version:
            raise EngineFailure(
                f"{url}: the weights did not move: /update_weights_from_disk succeeded, and the "
                f"server's weight version is {served!r}, not {version!r}"
            )

    async def _post(self, url: str, call: str, body: Mapping[str, Any]) -> None:
        reply = await self._client.ask(
            "POST", f"{url}/{call}", body=dict(body), timeout=_UPDATE_SECONDS
        )
        if isinstance(reply, dict) and reply.get("success") is False:
            raise EngineFailure(f"{url}/{call}: {reply.get('message')}")

    async def _served(self, url: str) -> str:
        """The server's weight version; older servers have an endpoint for it alone."""
        try:
            reply = await self._client.ask("GET", f"{url}/model_info")
        except ServerFault as fault:
            if fault.status != _NOT_FOUND:
                raise
            reply = await self._client.ask("GET", f"{url}/get_weight_version")
        return str(reply.get("weight_version")) if isinstance(reply, dict) else str(reply)
