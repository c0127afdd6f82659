"""A server of SGLang's protocol that knows its answers: nothing is computed, so clients are timed.

Started as a process of its own by `benchmarks/slime_bridge.py`; prints its port.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from random import Random
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

LOGPROB = -0.5
"""Of the likeliest token at temperature 1."""


def app(url: str, answer: list[int], text: str) -> Starlette:
    """The routes that a rollout asks for; every turn is answered with the same tokens."""
    drawn = Random(0)
    logprobs = [_single(-drawn.expovariate(2.0)) for _ in answer]

    async def generate(request: Request) -> Response:
        body = await request.json()
        sampling = body["sampling_params"]
        ids = answer[: sampling["max_new_tokens"]]
        whole = len(ids) == len(answer)
        finish = {"type": "stop", "matched": ids[-1]} if whole else {"type": "length"}
        meta: dict[str, Any] = {
            "id": body.get("rid", "x"),
            "finish_reason": finish,
            "prompt_tokens": len(body["input_ids"]),
            "completion_tokens": len(ids),
            "cached_tokens": 0,
            "weight_version": "1",
            "e2e_latency": 0.0123,
            "output_token_logprobs": [
                [logprob, token, None] for logprob, token in zip(logprobs, ids, strict=False)
            ],
        }
        if body.get("top_logprobs_num"):
            tempered = LOGPROB if sampling["temperature"] == 1 else 10 * LOGPROB
            meta["output_top_logprobs"] = [[[tempered, ids[0], None]]]
        return JSONResponse({"text": text, "output_ids": ids, "meta_info": meta})

    async def facts(request: Request) -> Response:
        return JSONResponse({"model_path": "scripted", "weight_version": "1"})

    async def workers(request: Request) -> Response:
        return JSONResponse({"workers": [{"url": url}]})

    async def health(request: Request) -> Response:
        return Response()

    handlers = {
        "/generate": generate,
        "/model_info": facts,
        "/server_info": facts,
        "/workers": workers,
        "/health": health,
    }
    return Starlette(
        routes=[Route(path, call, methods=["GET", "POST"]) for path, call in handlers.items()]
    )


def _single(value: float) -> float:
    """The nearest number of single precision, as SGLang's logprobs are: with many digits."""
    (number,) = struct.unpack("f", struct.pack("f", value))
    return float(number)


def main() -> None:
    """Serve the answer that standard input describes: {"ids": [...], "text": "..."}."""
    answer = json.loads(sys.stdin.readline())
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    print(port, flush=True)
    served = app(f"http://127.0.0.1:{port}", answer["ids"], answer["text"])
    config = uvicorn.Config(served, log_level="critical", lifespan="off")
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
