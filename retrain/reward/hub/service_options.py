"""How a service is asked: its URL, its secrets, and the bounds of every request."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from retrain.errors import ConfigError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a request may take, and how often it is sent.

    Attributes:
        concurrency: Most requests at once.
        timeout: Seconds for one score, its retries and their waits included; the wait for a place
            among the requests does not count.
        attempt_timeout: Seconds for one request, from connecting to the last byte of the reply.
        connect_timeout: Seconds to wait for a connection.
        retries: How often a request is sent again after an error that may pass.
        backoff: Seconds before the first retry; doubled every time, and jittered by half.
        longest_wait: Most seconds before a retry, also where the service asks for more.
        most_bytes: The longest reply.
        breaker_failures: Scores in a row that the service failed to give, retries and all, after
            which it is left alone.
        breaker_seconds: For how long.
    """

    concurrency: int = 32
    timeout: float = 55.0
    attempt_timeout: float = 20.0
    connect_timeout: float = 5.0
    retries: int = 3
    backoff: float = 0.5
    longest_wait: float = 30.0
    most_bytes: int = 2**20
    breaker_failures: int = 5
    breaker_seconds: float = 30.0

    def check(self, reward: str) -> Bounds:
        """These bounds, where they can be.

        Args:
            reward: The reward's name, for the message.

        Raises:
            ConfigError: A number is too small; the message names it.
        """
        for name in ("timeout", "attempt_timeout", "connect_timeout", "backoff", "longest_wait"):
            _above_zero(f"{reward}: {name}", getattr(self, name))
        _above_zero(f"{reward}: breaker_seconds", self.breaker_seconds)
        for name, least in (("concurrency", 1), ("retries", 0), ("most_bytes", 1)):
            at_least(f"{reward}: {name}", getattr(self, name), least)
        at_least(f"{reward}: breaker_failures", self.breaker_failures, 1)
        return self


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServiceSettings(Bounds, ABC):
    """The parameters of every service; each adds its own.

    Attributes:
        api_key_env: The environment variable with a key, sent as a bearer token.
        headers_env: `HEADER: VARIABLE` of headers that get an environment variable's value.
    """

    api_key_env: str | None = None
    headers_env: Sequence[str] = ()

    @abstractmethod
    def endpoint(self) -> str:
        """The URL that requests are posted to."""


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """Where requests go, and what must not be shown.

    Attributes:
        url: The whole URL.
        shown: The URL as messages show it: without its query.
        headers: Sent with every request.
        secrets: The texts in them that come from the environment.
    """

    url: str
    shown: str
    headers: Mapping[str, str]
    secrets: tuple[str, ...]

    def clean(self, text: str) -> str:
        """A text without the secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def make_address(
    reward: str, url: str, *, api_key_env: str | None, headers_env: Sequence[str]
) -> Address:
    """Check a URL, and read the secrets from the environment.

    Args:
        reward: The reward's name, for messages.
        url: An http(s) URL.
        api_key_env: The environment variable with a key, sent as a bearer token.
        headers_env: `HEADER: VARIABLE` of headers that get an environment variable's value.

    Raises:
        ConfigError: The URL is none or holds credentials, a header cannot be, or a variable is not
            set.
    """
    shown = _shown_url(reward, url)
    headers = {}
    for line in headers_env:
        header, _, variable = line.partition(":")
        if not _HEADER.fullmatch(header):
            raise ConfigError(f"{reward}: headers_env: write each as 'HEADER: VARIABLE'")
        headers[header] = _secret(f"{reward}: headers_env: {header}", variable.strip())
    secrets = list(headers.values())
    if api_key_env is not None:
        key = _secret(f"{reward}: api_key_env", api_key_env)
        headers["Authorization"] = f"Bearer {key}"
        secrets.append(key)
    longest_first = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
    return Address(url, shown, headers, tuple(longest_first))


def at_least(what: str, value: float, least: float) -> None:
    """Check a number.

    Raises:
        ConfigError: It is smaller.
    """
    if not value >= least:
        raise ConfigError(f"{what} is {value}, expected at least {least}")


def _shown_url(reward: str, url: str) -> str:
    """A checked URL, without its query."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no number
    except ValueError as error:
        raise ConfigError(f"{reward}: {url!r} is no URL: {error}") from None
    if parts.username or parts.password:
        raise ConfigError(
            f"{reward}: the URL of {parts.hostname} holds credentials; put them into an "
            "environment variable, and its name into api_key_env or headers_env"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        raise ConfigError(f"{reward}: {url!r} is no URL; write http://HOST:PORT/PATH")
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _above_zero(what: str, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{what} is {value}, expected more than 0 s")


def _secret(at: str, variable: str) -> str:
    if not _VARIABLE.fullmatch(variable):
        raise ConfigError(
            f"{at}: expected the name of an environment variable; write no secret into the "
            "configuration"
        )
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ConfigError(
            f"{at}: the environment variable {variable!r} is not set; export {variable}=… before "
            "the run"
        )
    if not value.isprintable():
        raise ConfigError(f"{at}: the value of {variable!r} cannot stand in a header")
    return value
