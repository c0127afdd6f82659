"""`name: chat`: an agent that a model behind an OpenAI-compatible endpoint of its own plays."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from retrain.connections import (
    RETRIED,
    Connections,
    is_loopback,
    load_aiohttp,
    retry_after,
    seconds_to_wait,
)
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.seeds import derive_seed

_KEY = "environment.agents"
_BACKOFF, _LONGEST_WAIT, _CONNECT_SECONDS = 0.5, 30.0, 10.0
_SHOWN = 200


class ChatPlayer:
    """Asks `/chat/completions` for each move, with all that the agent was told and has said.

    Args:
        base_url: The address, with its `/v1`.
        model: The model's name there.
        api_key_env: The environment variable with the API key; None sends none.
        system_prompt: A system message before the agent's own conversation.
        temperature: How it samples.
        max_tokens: The longest move.
        request: Further fields of the request; null takes one of these away.
        timeout: Seconds for one request.
        retries: How often a request is sent again after an error that may pass.
        seed: Sent along, another one for each move.

    Raises:
        ConfigError: The variable is not set.
        MissingDependency: aiohttp is not installed.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key_env: str | None = None,
        system_prompt: str | None = None,
        temperature: float = 1.0,
        max_tokens: int = 1024,
        request: Mapping[str, Any] | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        seed: int = 0,
    ) -> None:
        self._aiohttp = load_aiohttp("chat players")
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._body = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
        self._request = dict(request or {})
        self._system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        self._timeout, self._retries, self._seed = timeout, retries, seed
        self._key = _api_key(api_key_env)
        self._connections = Connections(
            self._aiohttp,
            headers={"Authorization": f"Bearer {self._key}"} if self._key else None,
            connect_timeout=_CONNECT_SECONDS,
            proxies=not is_loopback(base_url),
        )

    async def __call__(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Give the next move.

        Raises:
            EnvironmentFailure: There is no answer, an error, or no text in it.
        """
        seed = derive_seed("move", self._seed, len(messages)) % 2**31
        body = {**self._body, "seed": seed, **self._request}
        asked = {name: value for name, value in body.items() if value is not None}
        content = to_json({**asked, "messages": [*self._system, *messages]})
        for attempt in range(self._retries + 1):
            status, said, wait = await self._ask(content)
            if status == 200:
                return self._read(said)
            if attempt == self._retries or status not in (0, *RETRIED):
                break
            await asyncio.sleep(seconds_to_wait(attempt, _BACKOFF, wait, _LONGEST_WAIT))
        raise self._failure(f"HTTP {status}: {said}" if status else said)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    async def _ask(self, content: bytes) -> tuple[int, str, float]:
        """Status (0 without an answer), what came, and the seconds that the server asks for."""
        headers = {"Content-Type": "application/json"}
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._connections.session().post(
                    self._url, data=content, headers=headers, allow_redirects=False
                ) as response,
            ):
                said = await response.text()
                return response.status, said, retry_after(response.headers.get("Retry-After", ""))
        except TimeoutError:
            return 0, f"no answer within {self._timeout:g} s", 0.0
        except self._aiohttp.ClientError as error:
            return 0, f"{type(error).__name__}: {error}", 0.0

    def _read(self, said: str) -> str:
        try:
            text = from_json(said)["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError):
            raise self._failure(f"{said}, expected a chat completion") from None
        if not isinstance(text, str | None):
            raise self._failure(f"content is {text!r}, expected text")
        return text or ""

    def _failure(self, what: str) -> EnvironmentFailure:
        clean = what.replace(self._key, "***") if self._key else what
        return EnvironmentFailure(f"POST {self._url}: {' '.join(clean.split())[:_SHOWN]}")


def _api_key(variable: str | None) -> str:
    key = "" if variable is None else os.environ.get(variable, "")
    if variable is not None and not key:
        raise ConfigError(
            f"{_KEY}: api_key_env: the environment variable {variable!r} is not set; "
            f"export {variable}=… before the run"
        )
    return key
