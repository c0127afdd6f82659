"""The engine inside slime: SGLang behind the router that slime started."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backends.slime.framework import Post, framework
from retrain.compose import Composition
from retrain.engine.base import SamplingParams
from retrain.engine.http_answer import ServedModel
from retrain.engine.http_client import HttpSettings
from retrain.engine.http_engine import ABORT_SECONDS, Session, TurnRequest
from retrain.engine.http_pool import Server
from retrain.engine.sglang_engine import SGLangEngine
from retrain.engine.sglang_protocol import ROUTING_HEADER, generate_body
from retrain.errors import ConfigError, EngineFailure, boundary
from retrain.model_files import load_tokenizer, vocabulary_size
from retrain.vision import VisionProcessor

_OURS = ("max_new_tokens", "stop_token_ids", "no_stop_trim")
"""Sampling parameters that follow from the episode, whatever slime says."""
PATIENCE = HttpSettings(retries=59, backoff=1.0, longest_wait=1.0, proxies=False)
"""As slime's own `post`: 60 tries, a second apart, and never through a proxy."""
_PER_TOKEN = frozenset({"output_token_logprobs", "input_token_logprobs"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said about one turn.

    Attributes:
        meta_info: Its figures, as slime's samples take them; tokens and logprobs left out.
        tokens: How many it wrote.
        started: When the request was sent, in seconds since the epoch.
        ended: When the answer was there.
        session_id: The key by which the router chose the worker.
    """

    meta_info: Mapping[str, Any]
    tokens: int
    started: float
    ended: float
    session_id: str


Answers = dict[int, Answer]
"""Answers by the seed of their request, which names it uniquely: a turn's seed, and for a turn that
was interrupted, `part_seed` of each request that goes on with it."""


@dataclass(frozen=True, slots=True)
class SlimeSampling(SamplingParams):
    """How to sample inside slime.

    Attributes:
        raw: Slime's own sampling parameters, sent with every turn.
        session_id: The key for the router; None takes one for each episode.
        answers: Where the answers of the turns are kept for the conversion.
    """

    raw: Mapping[str, Any] = field(default_factory=dict)
    session_id: str | None = None
    answers: Answers = field(default_factory=dict, compare=False)


class RouterEngine(SGLangEngine):
    """`SGLangEngine` over slime's router, as patient as slime itself."""

    def __init__(
        self,
        url: str,
        *,
        model: ServedModel | None = None,
        seeded: bool = False,
        routed_experts: bool = False,
        timeout: float | None = None,
        post: Post | None = None,
        vision: VisionProcessor | None = None,
    ) -> None:
        """Take the router.

        Args:
            url: Its base URL.
            model: What the servers must serve.
            seeded: Whether the servers run with deterministic inference, so that seeds are sent.
            routed_experts: Whether answers must hold the routed experts.
            timeout: Seconds that one request may take; None bounds it by nothing here.
            post: Sends a request, and sends it again where it fails; None sends it as
                `SGLangEngine` does, with slime's patience.
            vision: The model's image processor; None takes no images.
        """
        settings = replace(PATIENCE, timeout=timeout or math.inf)
        if post is not None:
            settings = replace(settings, retries=0)
        super().__init__(url, router=True, settings=settings, model=model, vision=vision)
        self._send_seeds = seeded
        self._routed_experts = routed_experts
        self._post = post

    async def _send(self, server: Server, session: Session, turn: TurnRequest) -> Any:
        key = getattr(turn.params, "session_id", None) or session.uid
        body = {**self._body(turn), "rid": session.request_id}
        started = time.time()
        try:
            reply = await self._ask(f"{server.url}/generate", body, {ROUTING_HEADER: key})
        except asyncio.CancelledError:
            await self._end_on_server(server, session.request_id)
            raise
        if isinstance(turn.params, SlimeSampling) and isinstance(reply, dict):
            meta = reply.get("meta_info") or {}
            turn.params.answers[turn.seed] = Answer(
                _figures(meta),
                len(meta.get("output_token_logprobs") or ()),
                started,
                time.time(),
                key,
            )
        return reply

    def _body(self, turn: TurnRequest) -> dict[str, Any]:
        """The request: what slime asks for, within what the episode leaves."""
        body = generate_body(turn.input_ids, turn.params, turn.seed if self._send_seeds else None)
        raw = getattr(turn.params, "raw", {})
        slimes = {k: v for k, v in raw.items() if v is not None and k not in _OURS}
        body["sampling_params"] = {**body["sampling_params"], **slimes}
        if self._routed_experts:
            body["return_routed_experts"] = True
        return {**body, **self._shown(turn)}

    async def _ask(self, url: str, body: dict[str, Any], headers: Mapping[str, str]) -> Any:
        if self._post is None:
            return await self._client.ask("POST", url, body=body, headers=headers)
        async with boundary(EngineFailure, f"POST {url}"):
            return await self._post(url, body, headers=headers)

    async def _end_on_server(self, server: Server, request_id: str) -> None:
        """End a request that nobody waits for: its connection may be another process's."""
        try:
            async with asyncio.timeout(ABORT_SECONDS):
                await self._abort_on(server, request_id)
        except TimeoutError:
            return


def _figures(meta: Mapping[str, Any]) -> dict[str, Any]:
    """All but what is kept on the turn already: a list for each token, alive for an episode."""
    return {name: value for name, value in meta.items() if name not in _PER_TOKEN}


def router_engine(composition: Composition, args: Any) -> RouterEngine:
    """Make the engine over the router that slime's arguments name.

    Requests go through our own client, which takes a fraction of the processor time of slime's
    `post`, unless slime is to spread them over its own Ray actors (--use-distributed-post).

    Args:
        composition: Gives the model and its tokenizer.
        args: Slime's arguments.

    Raises:
        ConfigError: They name none.
    """
    if args.sglang_router_ip is None or args.sglang_router_port is None:
        raise ConfigError(
            "slime has started no router (--sglang-router-ip is not set), so no episode can be "
            "played; --debug-train-only plays none, and needs --load-debug-rollout-data"
        )
    config = composition.config
    tokenizer = load_tokenizer(config)
    model = ServedModel(
        config.model.name_or_path,
        vocabulary_size(config, None),
        lambda text: tokenizer.encode(text, add_special_tokens=False),
    )
    return RouterEngine(
        f"http://{args.sglang_router_ip}:{args.sglang_router_port}",
        model=model,
        seeded=bool(getattr(args, "sglang_enable_deterministic_inference", False)),
        routed_experts=bool(getattr(args, "use_rollout_routing_replay", False)),
        timeout=composition.environment.limits.generate_timeout,
        post=framework().post() if getattr(args, "use_distributed_post", False) else None,
        vision=composition.image_processor,
    )
