"""A server that speaks SGLang 0.5.15's native protocol, over the real in-process engine."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from loopback_server import LoopbackServer, until_disconnected
from served_model import EOS, Served, generate, stopped
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from retrain.engine.base import SamplingParams

GENERATE_FIELDS = {
    "rid",
    "input_ids",
    "sampling_params",
    "return_logprob",
    "top_logprobs_num",
    "stream",
}
SAMPLING_FIELDS = {
    "max_new_tokens",
    "stop",
    "stop_token_ids",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "no_stop_trim",
    "sampling_seed",
}


class SGLangServer(LoopbackServer):
    """Like SGLang: seeds count under deterministic inference only, rids are aborted by prefix.

    Attributes:
        weight_version: What /model_info says.
        stuck: Whether updates report success and change nothing.
        deaf: Whether updates change the version alone.
        written: Tokens of all answers.
        skips_tokenizer: Whether it was started with --skip-tokenizer-init.
    """

    skips_tokenizer = False

    def __init__(
        self,
        served: Served,
        *,
        deterministic: bool = True,
        original_logprobs: bool = False,
        workers: tuple[str, ...] = (),
        api_key: str | None = None,
    ) -> None:
        self.served = served
        self.weight_version = "default"
        self.stuck = self.deaf = False
        self.written = 0
        self.paused = False
        self.running: dict[str, str] = {}
        self._deterministic = deterministic
        self._mode = "raw" if original_logprobs else "tempered"
        self._workers = workers
        self._unseeded = 0
        routes = {
            "/health": self._health,
            "/model_info": self._model_info,
            "/server_info": self._server_info,
            "/tokenize": self._tokenize,
            "/generate": self._generate,
            "/abort_request": self._abort,
            "/pause_generation": self._pause,
            "/continue_generation": self._continue,
            "/flush_cache": self._flush,
            "/update_weights_from_disk": self._update,
        }
        super().__init__({**routes, "/workers": self._list} if workers else routes, api_key=api_key)

    async def _health(self, request: Request) -> Response:
        return Response()

    async def _model_info(self, request: Request) -> Response:
        path = self.served.path
        info = {"model_path": path, "tokenizer_path": path, "weight_version": self.weight_version}
        return JSONResponse(info)

    async def _server_info(self, request: Request) -> Response:
        facts = {"enable_deterministic_inference": self._deterministic, "tp_size": 1}
        return JSONResponse({**facts, "skip_tokenizer_init": self.skips_tokenizer})

    async def _tokenize(self, request: Request) -> Response:
        tokens = self.served.encode((await request.json())["prompt"])
        return JSONResponse({"tokens": tokens, "count": len(tokens), "max_model_len": 512})

    async def _list(self, request: Request) -> Response:
        return JSONResponse({"workers": [{"url": url} for url in self._workers]})

    async def _generate(self, request: Request) -> Response:
        body = await request.json()
        if unknown := {*body} - GENERATE_FIELDS | {*body["sampling_params"]} - SAMPLING_FIELDS:
            return JSONResponse({"error": {"message": f"unknown {unknown}"}}, status_code=400)
        rid = body.get("rid", uuid4().hex)
        if rid in self.running:
            message = f"Duplicate request ID detected: {rid}"
            return JSONResponse({"error": {"message": message}}, status_code=400)
        while self.paused:
            await asyncio.sleep(0.01)
        work = self._turn(request, body, rid)
        return await self.answer(request, work, check="top_logprobs_num" in body)

    async def _turn(self, request: Request, body: dict[str, Any], rid: str) -> dict[str, Any]:
        asked = body["sampling_params"]
        assert not (self.skips_tokenizer and asked.get("stop")), "SGLang refuses that"
        params = SamplingParams(
            asked["max_new_tokens"],
            asked["temperature"],
            asked["top_p"],
            asked["top_k"],
            frozenset({*asked["stop_token_ids"], EOS}),
        )
        self._unseeded += 1
        seed = asked.get("sampling_seed", 42) if self._deterministic else self._unseeded
        session = request.headers.get("x-smg-routing-key", rid)
        self.running[rid] = session
        try:
            work = generate(self.served, body["input_ids"], params, session, seed, self._mode)
            answer = await until_disconnected(request, work)
        finally:
            del self.running[rid]
        strings = asked.get("stop") or []
        longest = max((len(self.served.encode(one)) for one in strings), default=0)
        answer, matched = stopped(self.served, answer, strings, window=longest + 1)
        self.written += len(answer.output_ids)
        finish: dict[str, Any] = {"type": answer.finish_reason.value}
        if finish["type"] == "stop":
            finish["matched"] = matched or answer.output_ids[-1]
        pairs = zip(answer.logprobs, answer.output_ids, strict=True)
        meta = {
            "id": rid,
            "finish_reason": finish,
            "prompt_tokens": len(body["input_ids"]),
            "completion_tokens": len(answer.output_ids),
            "cached_tokens": answer.meta["cached_tokens"],
            "weight_version": self.weight_version,
        }
        if body.get("return_logprob"):
            meta["output_token_logprobs"] = [[logprob, token, None] for logprob, token in pairs]
        if body.get("top_logprobs_num"):
            heat = 1.0 if self._mode == "raw" else params.temperature or 1.0
            token, logprob = self.served.top(body["input_ids"], heat)
            meta["output_top_logprobs"] = [[[logprob, token, None]]]
        text = self.served.tokenizer.decode(answer.output_ids)
        return {"text": text, "output_ids": list(answer.output_ids), "meta_info": meta}

    async def _abort(self, request: Request) -> Response:
        body = await request.json()
        await self._abort_matching(body.get("rid", ""), everything=body.get("abort_all", False))
        return Response()

    async def _pause(self, request: Request) -> Response:
        assert (await request.json())["mode"] == "abort"
        self.paused = True
        while self.running:
            await self._abort_matching("", everything=True)
            await asyncio.sleep(0.01)
        return JSONResponse({"status": "ok"})

    async def _abort_matching(self, rid: str, *, everything: bool) -> None:
        for running, session in list(self.running.items()):
            if everything or (rid and running.startswith(rid)):
                await self.served.engine.abort(session)

    async def _continue(self, request: Request) -> Response:
        self.paused = False
        return JSONResponse({"status": "ok"})

    async def _flush(self, request: Request) -> Response:
        return PlainTextResponse("Cache flushed.", status_code=400 if self.running else 200)

    async def _update(self, request: Request) -> Response:
        body = await request.json()
        if not self.stuck:
            try:
                if not self.deaf:
                    self.served.load(body["model_path"])
            except OSError as error:
                content = {"success": False, "message": str(error).partition("\n")[0]}
                return JSONResponse(content, status_code=400)
            self.served.engine.weights_changed(body["weight_version"])
            self.weight_version = body["weight_version"]
        return JSONResponse({"success": True, "message": "Succeeded to update model weights."})
