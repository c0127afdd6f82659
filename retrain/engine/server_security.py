"""Who may talk to the server: itself only, or whoever has the token."""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from retrain.engine.server_answers import error_answer
from retrain.errors import ConfigError

TOKEN_ENV = "RETRAIN_SERVE_TOKEN"
LARGEST_BODY = 64 * 1024**2
"""Bytes of a request; the longest prompts are far below."""
_LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Access:
    """Who may talk to the server.

    Attributes:
        host: The address that it listens on.
        token: The bearer token that requests must bring; None asks for none.
    """

    host: str
    token: str | None

    def __post_init__(self) -> None:
        """Refuse an open door.

        Raises:
            ConfigError: The server would listen beyond this machine without a token.
        """
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                f"--host {self.host}: is reachable from other machines, which then could load "
                f"weights and end requests; set the environment variable {TOKEN_ENV} to a token "
                "that every request must bring (Authorization: Bearer TOKEN), or use 127.0.0.1"
            )

    def refusal(self, path: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Why a request is not served, as status and message; None where it is.

        A web page that this machine's browser shows can reach a loopback server, by a name of its
        own that it resolves to 127.0.0.1, by a form or by an image: the first shows in Host, the
        others in Origin and Sec-Fetch-Site. The health of the server is no secret.
        """
        site = headers.get("sec-fetch-site", "none")
        if "origin" in headers or site not in ("none", "same-origin"):
            return 403, "requests of web pages are refused"
        if is_loopback(self.host) and host_name(headers.get("host", "")) not in {
            *_LOCAL_NAMES,
            self.host.strip("[]"),
        }:
            return 403, f"Host {headers.get('host', '')!r} is not this server's"
        if self.token is None or path in ("/health", "/health_generate"):
            return None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secrets.compare_digest(
            given.encode("utf-8", "surrogateescape"), self.token.encode()
        ):
            return 401, f"a token is needed: Authorization: Bearer, as in {TOKEN_ENV}"
        return None


class Guard:
    """An ASGI application before the application: refuses before anything is read."""

    def __init__(self, app: Any, access: Access) -> None:
        """Stand before `app`."""
        self._app = app
        self._access = access

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        refusal = self._access.refusal(scope["path"], headers) or _too_large(headers)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, message = refusal
        body = json.dumps(error_answer(message)).encode()
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body})


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """The name in a Host header, without its port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _too_large(headers: Mapping[str, str]) -> tuple[int, str] | None:
    if "transfer-encoding" in headers:
        return 411, "send a Content-Length"
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LARGEST_BODY:
        return 413, f"the request has {length} bytes, at most {LARGEST_BODY} are read"
    return None
