"""`SGLangEngine`: turns written by SGLang servers, through their native /generate.

The protocol is that of SGLang 0.5.15: `srt/managers/io_struct.py` (AbortReq,
UpdateWeightFromDiskReqInput) and `srt/entrypoints/http_server.py`; /generate stands in
`sglang_protocol`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from retrain.engine.base import EngineCapabilities, Generation
from retrain.engine.http_answer import SAMPLE_TEXT, ServedModel
from retrain.engine.http_client import HttpSettings, ServerFault
from retrain.engine.http_engine import CHECK_SECONDS, HttpEngine, Session, TurnRequest
from retrain.engine.http_logprobs import HOT, PROBE_IDS, LogprobMode, logprob_mode, why_not_exact
from retrain.engine.http_pool import Server
from retrain.engine.http_weights import LoadingServers, ServerWeights
from retrain.engine.sglang_protocol import (
    ROUTING_HEADER,
    generate_body,
    image_body,
    read_generation,
)
from retrain.engine.sglang_weights import SGLangCalls
from retrain.errors import ConfigError, DataError, EngineFailure, RenderingFailure
from retrain.types import FinishReason
from retrain.vision.base import VisionProcessor, refuse_forged


class SGLangEngine(LoadingServers, HttpEngine):
    """An `InferenceEngine` over SGLang servers, or over a sglang-router before them.

    SGLang's logprobs are tempered and not truncated, which is what is wanted; a server that runs
    with SGLANG_RETURN_ORIGINAL_LOGPROB gives untempered ones, and is refused unless the
    temperature is 1 or 0. Seeds are honoured where every server runs with
    --enable-deterministic-inference, and are not sent elsewhere.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        router: bool = False,
        settings: HttpSettings | None = None,
        model: ServedModel | None = None,
        vision: VisionProcessor | None = None,
    ) -> None:
        """Take the servers; none is asked before `start`, or the first `generate`.

        Args:
            urls: Base URLs of the servers, or the one of a sglang-router.
            router: Whether `urls` is a router: aborts and weights then go to its workers, which
                must be reachable from here under the URLs that it lists.
            settings: Times, retries and the API key.
            model: What the servers must serve; None checks nothing.
            vision: The model's image processor; None takes no images.

        Raises:
            ConfigError: A URL cannot be one, the API key is not set, or there are two routers.
            MissingDependency: aiohttp is not installed.
        """
        super().__init__(urls, settings=settings, model=model)
        if router and len(self.urls) > 1:
            raise ConfigError("engine.urls: name one router, or several servers with router: false")
        self._router = router
        self._vision = vision
        self._calls = SGLangCalls(self._client)
        self._weights = ServerWeights(self._calls, self._pool, self._workers_of)
        self._modes: dict[Server, LogprobMode] = {}
        self._seeded: dict[Server, bool] = {}
        self._reads: dict[Server, bool] = {}

    @property
    def capabilities(self) -> EngineCapabilities:
        """Abortable, with weight updates; seeded once `start` has found all servers to be so."""
        seeded = bool(self._seeded) and all(self._seeded.values())
        seen = self._vision is not None
        return EngineCapabilities(seeded=seeded, abortable=True, images=seen, weight_update=True)

    @property
    def weight_version(self) -> str:
        """The version of the last update, or what the servers said of themselves."""
        return self._weights.version

    async def _check(self, server: Server) -> None:
        await self._client.ask("GET", f"{server.url}/health", timeout=CHECK_SECONDS)
        workers = await self._workers_of(server)
        info = await self._ask_json("GET", f"{workers[0]}/model_info")
        await self._check_vocabulary(workers[0], info)
        await self._weights.catch_up(server)
        facts = [await self._ask_json("GET", f"{url}/server_info") for url in workers]
        self._seeded[server] = all(fact.get("enable_deterministic_inference") for fact in facts)
        self._reads[server] = not any(fact.get("skip_tokenizer_init") for fact in facts)
        self._modes[server] = logprob_mode(
            *[await self._calls.top_logprob(server.url, PROBE_IDS, heat) for heat in (1.0, HOT)]
        )
        await self._weights.load_newest(server)

    async def _check_vocabulary(self, url: str, info: Mapping[str, Any]) -> None:
        """Compare tokens; a server started with --skip-tokenizer-init has none."""
        body = {"prompt": SAMPLE_TEXT, "add_special_tokens": False}
        try:
            reply = await self._ask_json("POST", f"{url}/tokenize", body)
        except ServerFault as fault:
            if fault.lost:
                raise
            return
        served = str(info.get("tokenizer_path") or info.get("model_path"))
        self._model.check_tokens(url, reply.get("tokens"), served)

    async def _write(self, server: Server, session: Session, turn: TurnRequest) -> Generation:
        wrong = why_not_exact(self._modes[server], turn.params, truncated=False)
        if wrong is not None:
            raise ConfigError(
                f"{server.url}: {wrong}; start the server without SGLANG_RETURN_ORIGINAL_LOGPROB, "
                "or set algorithm.hyperparameters.temperature: 1"
            )
        if not self._reads[server]:  # it refuses stop strings
            turn = replace(turn, params=replace(turn.params, stop_strings=None))
        reply = await self._send(server, session, turn)
        generation = read_generation(server.url, reply, len(turn.input_ids), self._version())
        if generation.finish_reason is not FinishReason.ABORT:  # by an update, of older weights
            self._weights.require_sent(server, generation.weight_version)
        refuse_forged(generation.output_ids, self._vision)
        return generation

    def _shown(self, turn: TurnRequest) -> dict[str, Any]:
        """What of a request shows images, in place of the plain ids; nothing where there are none.

        Raises:
            EngineFailure: An image cannot be read, or does not stand in the stream.
        """
        if not turn.images or self._vision is None:
            return {}
        try:
            return image_body(turn.input_ids, turn.images, self._vision)
        except (DataError, RenderingFailure) as error:
            raise EngineFailure(str(error)) from error

    async def _send(self, server: Server, session: Session, turn: TurnRequest) -> Any:
        """Ask for one turn and give the answer's JSON."""
        seed = turn.seed if self._seeded[server] else None
        body = generate_body(turn.input_ids, turn.params, seed)
        return await self._client.ask(
            "POST",
            f"{server.url}/generate",
            body={**body, **self._shown(turn), "rid": session.request_id},
            headers={ROUTING_HEADER: session.uid},
        )

    async def _abort_on(self, server: Server, request_id: str) -> bool:
        """Ask its server, or all workers of a router, to end the request."""
        try:
            urls = await self._workers_of(server)
            body = {"rid": request_id}
            for url in urls:
                await self._client.ask(
                    "POST", f"{url}/abort_request", body=body, timeout=CHECK_SECONDS
                )
        except EngineFailure:
            return False
        return True

    def _version(self) -> str:
        return self._weights.version

    async def _workers_of(self, server: Server) -> list[str]:
        if not self._router:
            return [server.url]
        reply = await self._ask_json("GET", f"{server.url}/workers")
        workers = [str(worker["url"]).rstrip("/") for worker in reply.get("workers", ())]
        if not workers:
            raise ServerFault(f"{server.url}/workers: the router has no workers", passing=True)
        return workers

    async def _ask_json(self, method: str, url: str, body: Any = None) -> dict[str, Any]:
        reply = await self._client.ask(method, url, body=body, timeout=CHECK_SECONDS)
        if not isinstance(reply, dict):
            raise ConfigError(f"{url}: answers {type(reply).__name__}; is it a SGLang server?")
        return reply
