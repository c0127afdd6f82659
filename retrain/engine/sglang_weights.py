"""New weights and released memory on a SGLang server.

The protocol is that of SGLang 0.5.15: `srt/entrypoints/http_server.py` and
`srt/managers/scheduler_update_weights_mixin.py`. `retrain serve` speaks it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrain.engine.base import SamplingParams
from retrain.engine.http_client import HttpClient, ServerFault
from retrain.engine.sglang_protocol import NO_LOGPROBS, generate_body
from retrain.engine.weight_calls import LOAD_SECONDS, require_success
from retrain.engine.weight_probe import PROMPTS
from retrain.errors import ConfigError

_NOT_FOUND = 404
_CHECK_SECONDS = 60.0


class SGLangCalls:
    """`WeightCalls` of SGLang."""

    def __init__(self, client: HttpClient) -> None:
        """Take the engine's client."""
        self._client = client

    async def served(self, url: str) -> str | None:
        """The server's weight version; older servers have an endpoint for it alone."""
        try:
            reply = await self._client.ask("GET", f"{url}/model_info", timeout=_CHECK_SECONDS)
        except ServerFault as fault:
            if fault.status != _NOT_FOUND:
                raise
            reply = await self._client.ask("GET", f"{url}/get_weight_version")
        return str(reply.get("weight_version")) if isinstance(reply, dict) else str(reply)

    async def wake(self, url: str) -> None:
        """See `WeightCalls`; SGLang itself dies of taking what it has, and tells nobody."""
        if (await self._facts(url)).get("releases_memory"):
            await self._post(url, "resume_memory_occupation", {})

    async def pause(self, url: str) -> None:
        """See `WeightCalls`; what runs is waited for, since a flush is refused until then."""
        await self._post(url, "pause_generation", {"mode": "abort"})
        await self._client.ask("GET", f"{url}/flush_cache", timeout=LOAD_SECONDS)

    async def go_on(self, url: str) -> None:
        """See `WeightCalls`."""
        await self._post(url, "continue_generation", {})

    async def load(self, url: str, path: str, version: str) -> None:
        """See `WeightCalls`; the server drops its cache itself."""
        body = {"model_path": path, "weight_version": version}
        await self._post(url, "update_weights_from_disk", body)

    async def release(self, url: str) -> None:
        """See `WeightCalls`; without its memory saver SGLang answers that all is well."""
        facts = await self._facts(url)
        if not (facts.get("enable_memory_saver") or facts.get("releases_memory")):
            raise ConfigError(
                f"{url}: the server keeps its memory while the trainer needs it; start it with "
                "--enable-memory-saver, or give it a device of its own and leave "
                "algorithm.hyperparameters.torch_colocate out"
            )
        await self._post(url, "release_memory_occupation", {})

    async def take_weights(self, url: str) -> None:
        """See `WeightCalls`."""
        await self._post(url, "resume_memory_occupation", {"tags": ["weights"]})

    async def take_cache(self, url: str) -> None:
        """See `WeightCalls`."""
        await self._post(url, "resume_memory_occupation", {"tags": ["kv_cache", "cuda_graph"]})

    async def answers(self, url: str) -> Sequence[float]:
        """See `WeightCalls`; one after the other, since a batch would change the last bits."""
        return [await self.top_logprob(url, ids, 1.0) for ids in PROMPTS]

    async def top_logprob(self, url: str, ids: Sequence[int], temperature: float) -> float:
        """The logprob of the likeliest token after a prompt.

        Raises:
            ConfigError: The server gives no logprobs.
        """
        params = SamplingParams(max_tokens=1, temperature=temperature)
        body = {**generate_body(list(ids), params, None), "top_logprobs_num": 1}
        reply = await self._client.ask("POST", f"{url}/generate", body=body, timeout=_CHECK_SECONDS)
        meta = reply.get("meta_info") if isinstance(reply, dict) else None
        try:
            return float((meta or {})["output_top_logprobs"][0][0][0])
        except (KeyError, IndexError, TypeError) as error:
            raise ConfigError(f"{url}: {NO_LOGPROBS}") from error

    async def _facts(self, url: str) -> Mapping[str, Any]:
        reply = await self._client.ask("GET", f"{url}/server_info", timeout=_CHECK_SECONDS)
        return reply if isinstance(reply, dict) else {}

    async def _post(self, url: str, call: str, body: Mapping[str, Any]) -> None:
        reply = await self._client.ask(
            "POST", f"{url}/{call}", body=dict(body), timeout=LOAD_SECONDS
        )
        require_success(reply, f"{url}/{call}")
