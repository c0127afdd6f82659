"""New weights and released memory on a vLLM server in its development mode.

Read and run with vLLM 0.31.0: `entrypoints/serve/dev/{rlhf,rpc,sleep,cache,server_info}` and
`GPUModelRunner.reload_weights`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from retrain.engine.http_client import HttpClient, ServerFault
from retrain.engine.weight_calls import LOAD_SECONDS
from retrain.engine.weight_probe import PROMPTS
from retrain.errors import ConfigError, EngineFailure

_NOT_FOUND = 404
_CHECK_SECONDS = 60.0

FORGET_SECONDS = 10.0
"""Seconds that a server may take to free the blocks of requests that have just been aborted."""


class VLLMCalls:
    """`WeightCalls` of vLLM."""

    def __init__(
        self, client: HttpClient, top_logprob: Callable[[str, Sequence[int]], Awaitable[float]]
    ) -> None:
        """Take the engine's client.

        Args:
            client: Sends the requests.
            top_logprob: The logprob, on a server, of the likeliest token after a prompt.
        """
        self._client = client
        self._top_logprob = top_logprob

    async def served(self, url: str) -> str | None:
        """The version that the server was told; older ones keep none.

        vLLM calls its weights so whatever they are, but one that has started again says "default".
        """
        try:
            reply = await self._client.ask("GET", f"{url}/weight_info", timeout=_CHECK_SECONDS)
        except ServerFault as fault:
            if fault.status != _NOT_FOUND:
                raise
            return None
        return str(reply["weight_version"]) if isinstance(reply, dict) else None

    async def wake(self, url: str) -> None:
        """See `WeightCalls`."""
        try:
            reply = await self._client.ask("GET", f"{url}/is_sleeping", timeout=_CHECK_SECONDS)
        except ServerFault as fault:
            if fault.status != _NOT_FOUND:
                raise
            return
        if isinstance(reply, dict) and reply.get("is_sleeping"):
            await self._post(url, "wake_up")

    async def pause(self, url: str) -> None:
        """See `WeightCalls`."""
        await self._post(url, "pause?mode=abort")

    async def go_on(self, url: str) -> None:
        """See `WeightCalls`."""
        await self._post(url, "resume")

    async def load(self, url: str, path: str, version: str) -> None:
        """See `WeightCalls`; of a folder that it cannot read, vLLM 0.31 dies."""
        body = {"method": "reload_weights", "kwargs": {"weights_path": path}}
        await self._post(url, "collective_rpc", body)
        await self.forget(url)
        if await self.served(url) is not None:
            await self._post(url, "update_weight_version", {"new_version": version})

    async def forget(self, url: str) -> None:
        """Drop the KV cache of all prefixes: after new weights it is that of the old ones.

        A server refuses while a request still holds blocks, and says so in its answer (since vLLM
        0.26), so it is asked until it has done it.

        Raises:
            EngineFailure: It did not, within 10 s.
        """
        clock = asyncio.get_running_loop()
        deadline = clock.time() + FORGET_SECONDS
        while clock.time() < deadline:
            reply = await self._client.ask(
                "POST", f"{url}/reset_prefix_cache", timeout=_CHECK_SECONDS
            )
            if not isinstance(reply, dict) or reply.get("success", True):
                return
            await asyncio.sleep(0.1)
        raise EngineFailure(
            f"{url}/reset_prefix_cache: the server still holds the KV cache of older weights after "
            f"{FORGET_SECONDS:g} s; does somebody else use it? A server in training serves one run"
        )

    async def release(self, url: str) -> None:
        """See `WeightCalls`; at level 2 the weights are dropped, as they will be loaded again."""
        await self._require_sleep_mode(url)
        await self._post(url, "sleep?level=2&mode=abort")

    async def take_weights(self, url: str) -> None:
        """See `WeightCalls`."""
        await self._post(url, "wake_up?tags=weights")

    async def take_cache(self, url: str) -> None:
        """See `WeightCalls`."""
        await self._post(url, "wake_up?tags=kv_cache")

    async def answers(self, url: str) -> Sequence[float]:
        """See `WeightCalls`; one after the other, since a batch would change the last bits."""
        return [await self._top_logprob(url, ids) for ids in PROMPTS]

    async def _require_sleep_mode(self, url: str) -> None:
        """Without it, vLLM would say that it sleeps, and keep its memory.

        Raises:
            ConfigError: The server was started without it.
        """
        facts = await self._client.ask(
            "GET", f"{url}/server_info?config_format=json", timeout=_CHECK_SECONDS
        )
        model = ((facts or {}).get("vllm_config") or {}).get("model_config") or {}
        if not model.get("enable_sleep_mode"):
            raise ConfigError(
                f"{url}: the server keeps its memory while the trainer needs it; start it with "
                "--enable-sleep-mode, or give it a device of its own and leave "
                "algorithm.hyperparameters.torch_colocate out"
            )

    async def _post(self, url: str, call: str, body: Any = None) -> None:
        """Ask for something that only the development mode offers.

        Raises:
            ConfigError: The server is not in it.
        """
        try:
            await self._client.ask("POST", f"{url}/{call}", body=body, timeout=LOAD_SECONDS)
        except ServerFault as fault:
            if fault.status != _NOT_FOUND:
                raise
            raise ConfigError(
                f"{url}: the server loads no weights from a folder (no /{call.partition('?')[0]}); "
                "start it with VLLM_SERVER_DEV_MODE=1"
            ) from fault
