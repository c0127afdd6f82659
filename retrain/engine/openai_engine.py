"""`OpenAIEngine`: turns written by an OpenAI-compatible server that speaks in token ids.

The request is /v1/completions with the prompt as ids. The answer must hold the ids that were
sampled, which OpenAI's own protocol has no place for; vLLM's has two: `return_token_ids`
(`choices[].token_ids`) and `return_tokens_as_token_ids` (`logprobs.tokens` as "token_id:7").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.engine.http_answer import SAMPLE_TEXT, ServedModel
from retrain.engine.http_client import HttpSettings, ServerFault
from retrain.engine.http_engine import CHECK_SECONDS, HttpEngine, Session, TurnRequest
from retrain.engine.http_logprobs import HOT, PROBE_IDS, LogprobMode, logprob_mode, why_not_exact
from retrain.engine.http_pool import Server
from retrain.engine.openai_answer import read_completion, top_logprob
from retrain.errors import ConfigError, EngineFailure, nearest

_PROBE_TOKENS = 8
_PROBE_SEED = 7


class OpenAIEngine(HttpEngine):
    """An `InferenceEngine` over OpenAI-compatible servers that take and give token ids.

    What a server can do is found out by asking it when it is checked: which distribution its
    logprobs are of, and whether the same seed gives the same tokens. Servers that answer in text
    alone are refused: their tokens would have to be guessed by encoding the text again.
    """

    remedy = (
        "use a vLLM server (engine: vllm), a SGLang server through its own protocol (engine: "
        "sglang), or the in-process engine (engine: transformers)"
    )
    tempered_advice = "start it so that logprobs are of the tempered distribution"

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        served_model: str | None = None,
        settings: HttpSettings | None = None,
        model: ServedModel | None = None,
        weight_version: str = "0",
    ) -> None:
        """Take the servers; none is asked before `start`, or the first `generate`.

        Args:
            urls: Base URLs, with or without /v1 at the end.
            served_model: The name under which the servers serve the model; None takes their first.
            settings: Times, retries and the API key.
            model: What the servers must serve; None checks nothing.
            weight_version: Stands on every generation, since these servers tell none.

        Raises:
            ConfigError: A URL cannot be one, or the API key is not set.
            MissingDependency: aiohttp is not installed.
        """
        given = [urls] if isinstance(urls, str) else urls
        bases = [url.rstrip("/").removesuffix("/v1") for url in given]
        super().__init__(bases, settings=settings, model=model)
        self.weight_version = weight_version
        self._served_model = served_model
        self._names: dict[Server, str] = {}
        self._modes: dict[Server, LogprobMode] = {}
        self._seeded: dict[Server, bool] = {}
        self._reads: set[Server] = set()

    @property
    def capabilities(self) -> EngineCapabilities:
        """Abortable; seeded once `start` has found all servers to be so."""
        seeded = bool(self._seeded) and all(self._seeded.values())
        return EngineCapabilities(seeded=seeded, abortable=True)

    def weights_changed(self, version: str) -> None:
        """Say that the servers have new weights: `version` stands on the turns from now on."""
        self.weight_version = version

    async def _check(self, server: Server) -> None:
        try:
            await self._client.ask("GET", f"{server.url}/health", timeout=CHECK_SECONDS)
        except ServerFault as fault:
            if fault.lost or fault.passing:
                raise
        self._names[server] = await self._name_on(server)
        await self._check_vocabulary(server)
        await self._prepare(server)
        cool = await self._probe(server, SamplingParams(1, temperature=1.0))
        hot = SamplingParams(_PROBE_TOKENS, temperature=HOT)
        first, again = await self._probe(server, hot), await self._probe(server, hot)
        self._modes[server] = logprob_mode(
            top_logprob(server.url, cool, self.remedy), top_logprob(server.url, first, self.remedy)
        )
        self._seeded[server] = self._ids(server, first) == self._ids(server, again)

    async def _prepare(self, server: Server) -> None:
        """Do what a server needs before it writes; nothing, unless it loads weights."""

    async def _name_on(self, server: Server) -> str:
        reply = await self._client.ask("GET", f"{server.url}/v1/models", timeout=CHECK_SECONDS)
        cards = reply.get("data") if isinstance(reply, dict) else None
        names = [str(card["id"]) for card in cards or ()]
        if not names:
            raise ConfigError(f"{server.url}/v1/models: lists no model; is it such a server?")
        if self._served_model is None:
            return names[0]
        if self._served_model not in names:
            raise ConfigError(
                f"engine.served_model: {server.url} serves no {self._served_model!r}; "
                f"{nearest(self._served_model, names)}"
            )
        return self._served_model

    async def _check_vocabulary(self, server: Server) -> None:
        """Compare tokens, where the server has an endpoint for it (vLLM's and SGLang's do)."""
        name = self._names[server]
        body = {"model": name, "prompt": SAMPLE_TEXT, "add_special_tokens": False}
        url = f"{server.url}/tokenize"
        try:
            reply = await self._client.ask("POST", url, body=body, timeout=CHECK_SECONDS)
        except ServerFault as fault:
            if fault.lost:
                raise
            return
        self._reads.add(server)
        tokens = reply.get("tokens") if isinstance(reply, dict) else None
        self._model.check_tokens(server.url, tokens, name)

    async def _probe(
        self, server: Server, params: SamplingParams, ids: Sequence[int] = PROBE_IDS
    ) -> Any:
        """Write a few tokens after a short prompt.

        Raises:
            ConfigError: The server does not take such a request.
        """
        turn = TurnRequest(list(ids), params, _PROBE_SEED)
        url = f"{server.url}/v1/completions"
        body = self._body(server, turn)
        try:
            return await self._client.ask("POST", url, body=body, timeout=CHECK_SECONDS)
        except ServerFault as fault:
            if fault.lost or fault.passing:
                raise
            raise ConfigError(
                f"{fault}; tokens are exact only where the server completes token ids at "
                f"/v1/completions (a chat endpoint applies a template and answers in text); "
                f"{self.remedy}"
            ) from fault

    def _ids(self, server: Server, reply: Any) -> tuple[int, ...]:
        """The ids of a probe.

        Raises:
            ConfigError: The server gives no ids, or no logprobs.
        """
        try:
            return read_completion(server.url, reply, PROBE_IDS, "", self.remedy).output_ids
        except EngineFailure as failure:
            raise ConfigError(str(failure)) from failure

    async def _write(self, server: Server, session: Session, turn: TurnRequest) -> Generation:
        wrong = why_not_exact(self._modes[server], turn.params, truncated=True)
        if wrong is not None:
            raise ConfigError(
                f"{server.url}: {wrong}; {self.tempered_advice}, or set temperature: 1, top_p: 1 "
                "and top_k: -1 under algorithm.hyperparameters"
            )
        version = self.weight_version
        reply = await self._client.ask(
            "POST",
            f"{server.url}/v1/completions",
            body=self._body(server, turn),
            headers={"X-Request-Id": session.request_id},
        )
        return read_completion(server.url, reply, turn.input_ids, version, self.remedy)

    def _body(self, server: Server, turn: TurnRequest) -> dict[str, Any]:
        """A request: everything that a server's own defaults could change is said."""
        params = turn.params
        return {
            "model": self._names[server],
            "prompt": turn.input_ids,
            "max_tokens": params.max_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "n": 1,
            "seed": turn.seed,
            "logprobs": 1,
            "stop_token_ids": sorted(params.stop_token_ids),
            "ignore_eos": True,
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "stream": False,
        }

    async def _abort_on(self, server: Server, request_id: str) -> bool:
        """Nothing to ask: cutting the connection ends the request on the server."""
        return False

    def _version(self) -> str:
        return self.weight_version
