"""Asks a service: retries what may pass, stops where it cannot, and believes no reply unread."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from retrain.connections import (
    RETRIED,
    Connections,
    is_loopback,
    load_aiohttp,
    retry_after,
    seconds_to_wait,
)
from retrain.reward.hub.service_breaker import CircuitBreaker
from retrain.reward.hub.service_faults import FaultKind, ServiceFailure
from retrain.reward.hub.service_options import Address, Bounds
from retrain.reward.hub.service_tally import Tally

if TYPE_CHECKING:
    from aiohttp import ClientResponse

_CHUNK = 2**16
_SHOWN = 200
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}


class ServiceClient:
    """The connections of one event loop to one service.

    Args:
        reward: The reward's name, for messages.
        address: Where requests go.
        bounds: What they may take.
        breaker: Shared by all loops.
        tally: Shared by all loops.
    """

    def __init__(
        self, reward: str, address: Address, bounds: Bounds, breaker: CircuitBreaker, tally: Tally
    ) -> None:
        self._what = f"{reward}: POST {address.shown}"
        self._address = address
        self._bounds = bounds
        self._breaker = breaker
        self._tally = tally
        self._aiohttp = load_aiohttp("rewards over HTTP")
        self._closed = False
        self.room = asyncio.Semaphore(bounds.concurrency)
        self._connections = Connections(
            self._aiohttp,
            headers={**_HEADERS, **address.headers},
            connect_timeout=bounds.connect_timeout,
            proxies=not is_loopback(address.url),
            decompress=False,
        )

    async def ask(self, body: bytes) -> Any:
        """Send one request, again where it may succeed then, and give its JSON.

        Args:
            body: The JSON to send.

        Raises:
            ServiceFailure: There is no answer, an error, or a reply that is no JSON; or the circuit
                breaker is open.
        """
        self._breaker.admit()
        try:
            reply = await self._asked(body)
        except ServiceFailure as failure:
            self._breaker.record(failure if failure.unwell else None)
            raise
        except BaseException:
            self._breaker.release()
            raise
        self._breaker.record(None)
        return reply

    def close(self) -> None:
        """Close the connections, from any thread; what still runs fails, and opens none anew."""
        self._closed = True
        self._connections.close()

    async def aclose(self) -> None:
        """Close the connections from inside their event loop."""
        self._closed = True
        await self._connections.aclose()

    async def _asked(self, body: bytes) -> Any:
        bounds, loop = self._bounds, asyncio.get_running_loop()
        deadline = loop.time() + bounds.timeout
        attempt = 0
        while True:
            try:
                return await self._exchange(
                    body, min(deadline - loop.time(), bounds.attempt_timeout)
                )
            except ServiceFailure as failure:
                wait = seconds_to_wait(
                    attempt, bounds.backoff, failure.retry_after, bounds.longest_wait
                )
                late = loop.time() + wait >= deadline
                if not failure.passing or attempt == bounds.retries or late:
                    raise
            self._tally.add("retries")
            attempt += 1
            await asyncio.sleep(wait)

    async def _exchange(self, body: bytes, seconds: float) -> Any:
        """One request. What aiohttp raised is no cause: its text may hold the URL and headers."""
        if self._closed:
            raise ServiceFailure(f"{self._what}: closed with its run", kind=FaultKind.CLOSED)
        self._tally.add("requests")
        began = time.perf_counter()
        try:
            async with (
                asyncio.timeout(seconds),
                self._connections.session().post(
                    self._address.url, data=body, allow_redirects=False
                ) as response,
            ):
                reply = await self._reply(response)
                self._tally.took(time.perf_counter() - began)
                return reply
        except TimeoutError:
            lost = self._lost(FaultKind.TIMEOUT, f"no answer within {seconds:.3g} s")
            raise lost from TimeoutError()
        except self._aiohttp.ClientError as error:
            raise self._lost(FaultKind.CONNECTION, _reason(error)) from None
        except (OSError, ValueError) as error:  # such as a header line that is none
            raise self._lost(FaultKind.CONNECTION, _reason(error)) from None

    async def _reply(self, response: ClientResponse) -> Any:
        if response.status != 200:
            raise self._refused(response, await self._start_of(response))
        content = await self._whole(response)
        try:
            return from_json(content)
        except ValueError:
            packed = response.headers.get("Content-Encoding", "")
            how = f"packed with {packed}, though asked not to" if packed else "which is no JSON"
            raise self.wrong(f"HTTP 200 with {self._line(content)}, {how}") from None

    def wrong(self, what_came: str) -> ServiceFailure:
        """The failure of a reply that is not what was asked for."""
        return ServiceFailure(f"{self._what}: {self._address.clean(what_came)}")

    async def _whole(self, response: ClientResponse) -> bytes:
        content = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            content += chunk
            if len(content) > self._bounds.most_bytes:
                response.close()
                raise ServiceFailure(
                    f"{self._what}: a reply of more than {self._bounds.most_bytes:,} bytes; it "
                    "begins with " + self._line(bytes(content[:_CHUNK])),
                    kind=FaultKind.TOO_LARGE,
                )
        return bytes(content)

    async def _start_of(self, response: ClientResponse) -> bytes:
        return await response.content.read(_CHUNK)

    def _refused(self, response: ClientResponse, content: bytes) -> ServiceFailure:
        status, advice = response.status, ""
        if 300 <= status < 400:
            advice = "; redirects are not followed: give the URL that it leads to"
        elif status in (401, 403):
            advice = "; is the right key named by api_key_env or headers_env?"
        limited = status == 429
        return ServiceFailure(
            f"{self._what}: HTTP {status}: {self._line(content)}{advice}",
            kind=FaultKind.LIMITED if limited else FaultKind.STATUS,
            passing=status in RETRIED,
            unwell=status >= 500,
            retry_after=retry_after(response.headers.get("Retry-After", "")),
        )

    def _lost(self, kind: FaultKind, reason: str) -> ServiceFailure:
        text = f"{self._what}: {self._address.clean(reason)[:_SHOWN]}"
        return ServiceFailure(text, kind=kind, passing=True, unwell=True)

    def _line(self, content: bytes) -> str:
        text = " ".join(content[: 4 * _SHOWN].decode("utf-8", "replace").split())
        shown = repr(self._address.clean(text))
        return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _reason(error: Exception) -> str:
    """What aiohttp says; not with the URL, whose query may hold a secret."""
    said = getattr(error, "message", "") or ("" if hasattr(error, "request_info") else error)
    return f"{type(error).__name__}: {' '.join(str(said).split())}".rstrip(": ")
