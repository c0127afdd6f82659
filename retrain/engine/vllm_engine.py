"""`VLLMEngine`: turns written by vLLM's own server, as TRL uses it too.

TRL 1.16 has no server of its own any more: `trl vllm-serve` starts `vllm serve` with
VLLM_SERVER_DEV_MODE=1, --logprobs-mode processed_logprobs and --weight-transfer-config. TRL's
client sends one batch with one length to it and gives back neither finish reasons nor a way to
abort; the server itself can do all of that per request, so it is asked directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.engine.http_client import ServerFault
from retrain.engine.http_engine import CHECK_SECONDS, Session, TurnRequest
from retrain.engine.http_pool import Server
from retrain.engine.http_weights import LoadingServers, ServerWeights
from retrain.engine.openai_answer import top_logprob
from retrain.engine.openai_engine import OpenAIEngine
from retrain.engine.vllm_weights import VLLMCalls
from retrain.types import FinishReason


class VLLMEngine(LoadingServers, OpenAIEngine):
    """An `InferenceEngine` over vLLM servers.

    - Length, seed and stop tokens are those of the request; vLLM gives every seeded request a
      generator of its own, so its tokens do not depend on what runs beside it (up to the float
      noise of another batch shape, which VLLM_BATCH_INVARIANT=1 removes).
    - Logprobs are of the raw distribution by default and of the tempered one under
      --logprobs-mode processed_logprobs, then after top-p and top-k too. Raw ones are refused for
      temperatures other than 0 and 1, processed ones with top-p or top-k.
    - `abort` uses /abort_requests, which VLLM_SERVER_DEV_MODE=1 opens, and keeps what was written;
      without it the connection is cut, and the turn ends empty.
    - Weights come in one of two ways. The server loads them from a folder
      (`update_weights_from_checkpoint`), which VLLM_SERVER_DEV_MODE=1 opens; or TRL sends them over
      NCCL into the server, and then `weights_changed` is called. Tensor parallelism inside the
      server is the server's own matter: a request is one HTTP call, whatever the number of its
      workers.
    """

    remedy = (
        "start it with: VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --logprobs-mode processed_logprobs "
        "(a version that knows return_token_ids)"
    )
    tempered_advice = (
        "logprobs are tempered under --logprobs-mode processed_logprobs, which trl vllm-serve sets"
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the servers, as `OpenAIEngine` does."""
        super().__init__(*args, **options)
        self._calls = VLLMCalls(self._client, self._top_logprob)
        self._weights = ServerWeights(self._calls, self._pool, self._workers_of)

    def _body(self, server: Server, turn: TurnRequest) -> dict[str, Any]:
        """A request; a server that has a tokenizer is told of the stop strings.

        Its `token_ids` hold every token all the same, and `include_stop_str_in_output` is about
        the text alone (vLLM 0.31: `vllm/v1/engine/detokenizer.py`).
        """
        body, strings = super()._body(server, turn), turn.params.stop_strings
        if strings is None or server not in self._reads:
            return body
        return {**body, "stop": list(strings.texts), "include_stop_str_in_output": True}

    @property
    def capabilities(self) -> EngineCapabilities:
        """Abortable, with weight updates; seeded once `start` has found all servers to be so."""
        return replace(super().capabilities, weight_update=True)

    async def update_weights_from_checkpoint(self, path: str, version: str) -> None:
        """See `LoadingServers`.

        Raises:
            EngineFailure: No server has them.
            ConfigError: A server is not in its development mode.
        """
        self.weight_version = version
        await super().update_weights_from_checkpoint(path, version)

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
            await self._calls.forget(server.url)

    async def _check(self, server: Server) -> None:
        await super()._check(server)
        await self._weights.load_newest(server)

    async def _write(self, server: Server, session: Session, turn: TurnRequest) -> Generation:
        generation = await super()._write(server, session, turn)
        if generation.finish_reason is not FinishReason.ABORT:
            await self._weights.require_kept(server)
        return generation

    async def _prepare(self, server: Server) -> None:
        await self._weights.catch_up(server)

    async def _workers_of(self, server: Server) -> Sequence[str]:
        return (server.url,)

    async def _top_logprob(self, url: str, ids: Sequence[int]) -> float:
        """The logprob of the likeliest token after a prompt."""
        server = next(server for server in self._pool.servers if server.url == url)
        reply = await self._probe(server, SamplingParams(1, temperature=1.0), ids)
        return top_logprob(url, reply, self.remedy)

    async def _abort_on(self, server: Server, request_id: str) -> bool:
        """End a request by its id: /v1/completions names its one prompt cmpl-ID-0."""
        body = {"request_ids": [f"cmpl-{request_id}-0"]}
        url = f"{server.url}/abort_requests"
        try:
            await self._client.ask("POST", url, body=body, timeout=CHECK_SECONDS)
        except ServerFault:
            return False
        return True
