"""A server that speaks vLLM's OpenAI protocol, over the real in-process engine."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from loopback_server import LoopbackServer, until_disconnected
from served_model import EOS, Served, generate, stopped
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from retrain.engine.base import SamplingParams
from retrain.engine.http_logprobs import PROBE_IDS

FIELDS = {
    "model",
    "prompt",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "n",
    "seed",
    "logprobs",
    "stop",
    "include_stop_str_in_output",
    "stop_token_ids",
    "ignore_eos",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "stream",
}


class VLLMServer(LoopbackServer):
    """Like `vllm serve`: requests are called cmpl-ID-0, aborts need the development mode."""

    def __init__(
        self,
        served: Served,
        *,
        processed_logprobs: bool = True,
        token_ids: bool = True,
        development: bool = True,
        chat_only: bool = False,
        ignores_seeds: bool = False,
        name: str = "tiny",
        api_key: str | None = None,
    ) -> None:
        self.served = served
        self.running: set[str] = set()
        self._mode = "processed" if processed_logprobs else "raw"
        self._token_ids = token_ids
        self._name = name
        self._ignores_seeds = ignores_seeds
        self._count = 0
        self.written = 0
        routes = {
            "/health": self._health,
            "/v1/models": self._models,
            "/tokenize": self._tokenize,
            "/v1/completions": self._complete,
            "/abort_requests": self._abort,
        }
        if not development:
            del routes["/abort_requests"]
        if chat_only:
            del routes["/v1/completions"]
        super().__init__(routes, api_key=api_key)

    async def _health(self, request: Request) -> Response:
        return Response()

    async def _models(self, request: Request) -> Response:
        card = {"id": self._name, "object": "model", "max_model_len": 512}
        return JSONResponse({"object": "list", "data": [card]})

    async def _tokenize(self, request: Request) -> Response:
        tokens = self.served.encode((await request.json())["prompt"])
        return JSONResponse({"tokens": tokens, "count": len(tokens), "max_model_len": 512})

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        if unknown := {*body} - FIELDS:
            return JSONResponse({"error": {"message": f"unknown {unknown}"}}, status_code=400)
        if not 0 <= body["temperature"] <= 2:
            message = f"temperature must be in [0, 2], got {body['temperature']}"
            return JSONResponse({"error": {"message": message}}, status_code=400)
        if body["model"] != self._name:
            message = f"The model `{body['model']}` does not exist."
            return JSONResponse({"error": {"message": message}}, status_code=404)
        work = self._turn(request, body)
        return await self.answer(request, work, check=body["prompt"] == list(PROBE_IDS))

    async def _turn(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        stops = {*body["stop_token_ids"]} | (set() if body["ignore_eos"] else {EOS})
        params = SamplingParams(
            body["max_tokens"],
            body["temperature"],
            body["top_p"],
            body["top_k"],
            frozenset(stops),
        )
        self._count += 1
        request_id = f"cmpl-{request.headers.get('x-request-id', uuid4().hex)}-0"
        seed = self._count if self._ignores_seeds else body["seed"]
        self.running.add(request_id)
        try:
            mode = "raw" if self._mode == "raw" else "tempered"
            work = generate(self.served, body["prompt"], params, request_id, seed, mode)
            answer = await until_disconnected(request, work)
        finally:
            self.running.discard(request_id)
        answer, matched = stopped(self.served, answer, body.get("stop") or [])
        self.written += len(answer.output_ids)
        ids = list(answer.output_ids)
        names = [f"token_id:{i}" if body["return_tokens_as_token_ids"] else "?" for i in ids]
        if not self._token_ids:
            names = [self.served.tokenizer.decode([i]) for i in ids]
        top = [{name: lp} for name, lp in zip(names, answer.logprobs, strict=True)]
        if top:
            heat = 1.0 if mode == "raw" else params.temperature or 1.0
            token, logprob = self.served.top(body["prompt"], heat)
            top[0][f"token_id:{token}"] = logprob
        choice = {
            "index": 0,
            "text": self.served.tokenizer.decode(ids),
            "logprobs": {
                "tokens": names,
                "token_logprobs": list(answer.logprobs),
                "top_logprobs": top,
                "text_offset": [0] * len(ids),
            },
            "finish_reason": answer.finish_reason.value,
            "stop_reason": (matched or ids[-1]) if answer.finish_reason == "stop" else None,
            "token_ids": ids if self._token_ids and body["return_token_ids"] else None,
            "prompt_token_ids": body["prompt"] if self._token_ids else None,
        }
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(ids)}
        return {"id": request_id, "model": self._name, "choices": [choice], "usage": usage}

    async def _abort(self, request: Request) -> Response:
        for request_id in (await request.json())["request_ids"]:
            if request_id in self.running:
                await self.served.engine.abort(request_id)
        return JSONResponse({"status": "aborted"})
