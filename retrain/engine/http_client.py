"""One pooled keep-alive HTTP client per engine, and errors that name the URL and what it said."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic_core import from_json, to_json

from retrain.connections import RETRIED, Connections, is_loopback, load_aiohttp, retry_after
from retrain.errors import ConfigError, EngineFailure

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_LONGEST_LINE = 300
_KEYLESS = frozenset({401, 403})
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """How an engine talks to its servers.

    Attributes:
        api_key_env: Name of the environment variable that holds the API key, sent as a bearer
            token; None sends none. The key itself stands in no configuration, log or error.
        timeout: Seconds one request may take, its generation included.
        connect_timeout: Seconds to wait for a connection.
        retries: How often a request is sent again after an error that may pass.
        backoff: Seconds before the first retry; doubled every time, and jittered by half.
        longest_wait: Most seconds before a retry.
        probe_interval: Seconds for which a server that failed is left out before it is asked again.
        proxies: Whether proxies that the environment names are used, unless all servers are on
            this machine.
    """

    api_key_env: str | None = None
    timeout: float = 600.0
    connect_timeout: float = 5.0
    retries: int = 3
    backoff: float = 0.5
    longest_wait: float = 30.0
    probe_interval: float = 5.0
    proxies: bool = True

    def __post_init__(self) -> None:
        """Refuse times that cannot be.

        Raises:
            ConfigError: A time is not positive, or the number of retries negative.
        """
        for name in ("timeout", "connect_timeout", "backoff", "longest_wait", "probe_interval"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"engine.{name}: {getattr(self, name)}, expected more than 0 s")
        if self.retries < 0:
            raise ConfigError(f"engine.retries: {self.retries}, expected at least 0")


class ServerFault(EngineFailure):
    """A server did not answer, or answered with an error.

    Attributes:
        status: The HTTP status; None where there was no answer.
        lost: Whether the server did not answer at all, so that it should be left out.
        passing: Whether the same request may succeed later or elsewhere.
        retry_after: Seconds after which the server asks to be asked again.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        lost: bool = False,
        passing: bool = False,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.lost = lost
        self.passing = passing
        self.retry_after = retry_after


class HttpClient:
    """Sends single requests; retries and the choice of a server are the engine's."""

    def __init__(self, urls: tuple[str, ...], settings: HttpSettings) -> None:
        """Take the settings; nothing is opened before the first request.

        Raises:
            ConfigError: The API key's environment variable is not set.
            MissingDependency: aiohttp is not installed.
        """
        self._aiohttp = load_aiohttp("engines over HTTP")
        self._settings = settings
        self._key = _api_key(settings.api_key_env)
        self._connections = Connections(
            self._aiohttp,
            headers={"Authorization": f"Bearer {self._key}"} if self._key else None,
            connect_timeout=settings.connect_timeout,
            proxies=settings.proxies and not all(map(is_loopback, urls)),
        )

    async def ask(
        self,
        method: str,
        url: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send one request and give its JSON, or its text where it is no JSON.

        Args:
            method: GET or POST.
            url: The whole URL.
            body: What to send as JSON; None sends nothing.
            headers: Further headers.
            timeout: Seconds that all of it may take; None is `settings.timeout`.

        Raises:
            ServerFault: There was no answer, or one with a status from 400 on.
        """
        limit = timeout or self._settings.timeout
        what = f"{method} {url}"
        data = None if body is None else to_json(body)
        sent = headers if data is None else {**_JSON, **(headers or {})}
        try:
            async with (
                asyncio.timeout(limit),
                self._session().request(
                    method, url, data=data, headers=sent, allow_redirects=False
                ) as response,
            ):
                content = await response.read()
        except self._aiohttp.ClientError as error:
            reason = self._clean(f"{type(error).__name__}: {error}".rstrip(": "))
            raise ServerFault(f"{what}: {reason}", lost=True, passing=True) from None
        except TimeoutError as error:
            raise ServerFault(f"{what}: no answer within {limit:g} s", lost=True) from error
        if response.status >= 400:
            raise self._refused(what, response, _text(content))
        try:
            return from_json(content)
        except ValueError:
            return _text(content)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    def close(self) -> None:
        """Close the connections from outside the event loop."""
        self._connections.close()

    def _session(self) -> ClientSession:
        return self._connections.session()

    def _refused(self, what: str, response: ClientResponse, text: str) -> ServerFault:
        status = response.status
        line = self._clean(text.strip().partition("\n")[0][:_LONGEST_LINE])
        hint = "; is the right key named by engine.api_key_env?" if status in _KEYLESS else ""
        return ServerFault(
            f"{what}: HTTP {status}: {line or response.reason}{hint}",
            status=status,
            passing=status in RETRIED,
            retry_after=retry_after(response.headers.get("Retry-After", "")),
        )

    def _clean(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def server_urls(urls: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Check server URLs and strip what must not stand at their end.

    Args:
        urls: One, or several.

    Raises:
        ConfigError: There is none, one is no http(s) URL, holds credentials or stands there twice.
    """
    given = [urls] if isinstance(urls, str) else list(urls)
    found = tuple(url.rstrip("/") for url in given)
    if not found:
        raise ConfigError("engine.urls: empty; name at least one server, e.g. http://host:30000")
    for url in found:
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise ConfigError(
                f"engine.urls: the URL of {parts.hostname} holds credentials; put the key into an "
                "environment variable and its name into engine.api_key_env"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"engine.urls: {url!r} is no URL; write http://HOST:PORT")
    if len(set(found)) < len(found):
        raise ConfigError(f"engine.urls: a server stands there twice: {', '.join(found)}")
    return found


def _api_key(variable: str | None) -> str:
    if variable is None:
        return ""
    key = os.environ.get(variable, "")
    if not key:
        raise ConfigError(
            f"engine.api_key_env: the environment variable {variable!r} is not set; "
            f"export {variable}=… before the run"
        )
    return key
