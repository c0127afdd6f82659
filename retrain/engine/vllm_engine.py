"""`VLLMEngine`: turns written by vLLM's own server, as TRL uses it too.

TRL 1.16 has no server of its own any more: `trl vllm-serve` starts `vllm serve` with
VLLM_SERVER_DEV_MODE=1, --logprobs-mode processed_logprobs and --weight-transfer-config. TRL's
client sends one batch with one length to it and gives back neither finish reasons nor a way to
abort; the server itself can do all of that per request, so it is asked directly.
"""

from __future__ import annotations

import asyncio

from retrain.engine.http_client import ServerFault
from retrain.engine.http_engine import CHECK_SECONDS
from retrain.engine.http_pool import Server
from retrain.engine.openai_engine import OpenAIEngine
from retrain.errors import EngineFailure

_FORGET_SECONDS = 10.0
"""Seconds that a server may take to free the blocks of requests that have just been aborted."""


class VLLMEngine(OpenAIEngine):
    """An `InferenceEngine` over vLLM servers.

    - Length, seed and stop tokens are those of the request; vLLM gives every seeded request a
      generator of its own, so its tokens do not depend on what runs beside it (up to the float
      noise of another batch shape, which VLLM_BATCH_INVARIANT=1 removes).
    - Logprobs are of the raw distribution by default and of the tempered one under
      --logprobs-mode processed_logprobs, then after top-p and top-k too. Raw ones are refused for
      temperatures other than 0 and 1, processed ones with top-p or top-k.
    - `abort` uses /abort_requests, which VLLM_SERVER_DEV_MODE=1 opens, and keeps what was written;
      without it the connection is cut, and the turn ends empty.
    - Weights are the trainer's: TRL sends them over NCCL into the server, then `weights_changed`
      is called. Tensor parallelism inside the server is the server's own matter: a request is one
      HTTP call, whatever the number of its workers.
    """

    remedy = (
        "start it with: VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --logprobs-mode processed_logprobs "
        "(a version that knows return_token_ids)"
    )
    tempered_advice = (
        "logprobs are tempered under --logprobs-mode processed_logprobs, which trl vllm-serve sets"
    )

    async def require_up(self) -> None:
        """See that every server still answers, before something is begun that waits for it.

        Raises:
            ServerFault: One does not.
        """
        for server in self._pool.servers:
            await self._client.ask("GET", f"{server.url}/health", timeout=CHECK_SECONDS)

    async def forget_prefixes(self) -> None:
        """Drop the KV cache of all prefixes: after new weights it is that of the old ones.

        A server refuses while a request still holds blocks, and says so in its answer (since vLLM
        0.26), so it is asked until it has done it.

        Raises:
            EngineFailure: A server did not, within 10 s.
        """
        for server in self._pool.servers:
            await self._forget_on(server)

    async def _forget_on(self, server: Server) -> None:
        url, clock = f"{server.url}/reset_prefix_cache", asyncio.get_running_loop()
        deadline = clock.time() + _FORGET_SECONDS
        while clock.time() < deadline:
            reply = await self._client.ask("POST", url, timeout=CHECK_SECONDS)
            if not isinstance(reply, dict) or reply.get("success", True):
                return
            await asyncio.sleep(0.1)
        raise EngineFailure(
            f"{url}: the server still holds the KV cache of older weights after "
            f"{_FORGET_SECONDS:g} s; does somebody else use it? A server in training serves one run"
        )

    async def _abort_on(self, server: Server, request_id: str) -> bool:
        """End a request by its id: /v1/completions names its one prompt cmpl-ID-0."""
        body = {"request_ids": [f"cmpl-{request_id}-0"]}
        url = f"{server.url}/abort_requests"
        try:
            await self._client.ask("POST", url, body=body, timeout=CHECK_SECONDS)
        except ServerFault:
            return False
        return True
