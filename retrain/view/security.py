"""Who may see the page: this machine's browser, and no page of anybody else's in it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from retrain.engine.server_security import host_name

_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        b"object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""On every answer: nothing is loaded from elsewhere, nothing inline runs, nobody frames it."""


class LocalOnly:
    """An ASGI application before the application: answers only what asks as the page itself does.

    A foreign page in the same browser reaches a loopback server by a name that it resolves to
    127.0.0.1 (which shows in Host), or by embedding (which shows in Sec-Fetch-Site).
    """

    def __init__(self, app: Any) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        message = refusal(scope["method"], headers)
        if message is not None:
            await _refuse(send, message)
            return

        async def send_guarded(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                event["headers"] = [*event.get("headers", ()), *HEADERS]
            await send(event)

        await self._app(scope, receive, send_guarded)


def refusal(method: str, headers: Mapping[str, str]) -> str | None:
    """Why a request is not answered; None where it is."""
    if method not in ("GET", "HEAD"):
        return "the viewer only shows: GET it"
    if host_name(headers.get("host", "")) not in _NAMES:
        return f"Host {headers.get('host', '')!r} is not this machine's loopback address"
    site = headers.get("sec-fetch-site", "none")
    top_level = headers.get("sec-fetch-mode") == "navigate"
    if site not in ("none", "same-origin") and not (top_level and _is_document(headers)):
        return "requests of other pages are refused"
    return None


def _is_document(headers: Mapping[str, str]) -> bool:
    """Whether a link was followed: that shows the page, and tells the page it stood on nothing."""
    return headers.get("sec-fetch-dest") == "document"


async def _refuse(send: Any, message: str) -> None:
    body = message.encode()
    head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 403, "headers": [*head, *HEADERS]})
    await send({"type": "http.response.body", "body": body})
