"""Keep-alive HTTP connections that end with their owner, and when to ask a server again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import finalize

from retrain.errors import MissingDependency

if TYPE_CHECKING:
    from aiohttp import ClientSession

RETRIED = frozenset({429, 500, 502, 503, 504})
"""The statuses after which the same request may succeed."""
KEEPALIVE_SECONDS = 4.0
"""Below the 5 s after which uvicorn, under SGLang and vLLM alike, closes an idle connection."""


class Connections:
    """The connections of one owner, in one event loop at a time: they cannot change their loop.

    Args:
        aiohttp: The module, from `load_aiohttp`.
        headers: Sent with every request.
        connect_timeout: Seconds to wait for a connection.
        proxies: Whether proxies that the environment names are used.
        decompress: Whether a compressed body is unpacked.
    """

    def __init__(
        self,
        aiohttp: Any,
        *,
        headers: Mapping[str, str] | None,
        connect_timeout: float,
        proxies: bool,
        decompress: bool = True,
    ) -> None:
        self._aiohttp = aiohttp
        self._headers = headers
        self._connect_timeout = connect_timeout
        self._proxies = proxies
        self._decompress = decompress
        self._open: ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forget: finalize[..., Connections] | None = None
        self._guard: AsyncGenerator[None] | None = None

    def session(self) -> ClientSession:
        """The connections of the running loop; those of another loop are closed."""
        loop = asyncio.get_running_loop()
        if self._open is None or self._loop is not loop:
            self.close()
            self._open, self._loop = self._opened(), loop
            self._forget = finalize(self, _close, self._open, loop)
            self._guard = _guard(self._open)
        return self._open

    async def aclose(self) -> None:
        """Close the connections."""
        session, self._open = self._open, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()

    def close(self) -> None:
        """Close the connections from outside the event loop."""
        self._open = None
        if self._forget is not None:
            self._forget()

    def _opened(self) -> ClientSession:
        aiohttp = self._aiohttp
        session: ClientSession = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(None, sock_connect=self._connect_timeout),
            trust_env=self._proxies,
            auto_decompress=self._decompress,
        )
        return session


def load_aiohttp(what: str) -> Any:
    """Import aiohttp.

    Args:
        what: Who needs it, in the plural, for the message.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        import aiohttp
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"{what} need aiohttp; install it with: pip install 'retrain[http]'"
        ) from error
    return aiohttp


def seconds_to_wait(attempt: int, backoff: float, retry_after: float, longest: float) -> float:
    """Seconds before the next attempt: exponential, jittered so that callers spread out.

    Args:
        attempt: How many attempts failed before this one.
        backoff: Seconds before the first retry, jittered by half.
        retry_after: Seconds that the server asks for.
        longest: Most seconds.
    """
    jittered = backoff * 2.0**attempt * random.uniform(0.5, 1.5)
    return min(max(jittered, retry_after), longest)


def retry_after(value: str) -> float:
    """The seconds that a `Retry-After` header asks for; 0.0 where it asks for nothing readable.

    Source: RFC 9110, section 10.2.3: seconds, or a date.
    """
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _guard(session: ClientSession) -> AsyncGenerator[None]:
    """Close connections when the running loop ends, if nobody has: afterwards it is too late.

    What ends a loop in order (`asyncio.run`, `EventLoopThread`) ends its asynchronous generators.
    """

    async def until_the_end() -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await session.close()

    guard = until_the_end()
    with suppress(StopIteration):
        guard.__anext__().__await__().send(None)
    return guard


def _close(session: ClientSession, loop: asyncio.AbstractEventLoop) -> None:
    """Close connections from anywhere: in their loop, or at once where that is here or over.

    What is awaited at the end, the goodbyes of TLS, is left out: a task might not come to run.
    """
    closing = session.close()

    def close() -> None:
        with suppress(StopIteration):
            closing.send(None)
        closing.close()

    if loop.is_running() and not _is_here(loop):
        loop.call_soon_threadsafe(close)
    else:
        close()


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
