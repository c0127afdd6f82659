"""The routes of `retrain serve`: SGLang's native protocol, and as much of its router's.

The protocol is that of SGLang 0.5.15 (`srt/entrypoints/http_server.py`) and of sglang-router 0.3.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from retrain import __version__
from retrain.engine.server_answers import error_answer, worker_answer
from retrain.engine.server_errors import RequestRefused
from retrain.engine.server_information import add_information
from retrain.engine.server_protocol import (
    AbortBody,
    ContinueBody,
    GenerateBody,
    MemoryBody,
    PauseBody,
    TokenizeBody,
    UpdateBody,
    WorkerBody,
)
from retrain.engine.server_security import host_name, is_loopback
from retrain.engine.server_service import ModelService
from retrain.engine.sglang_protocol import ROUTING_HEADER
from retrain.errors import EngineFailure

_OURS = "Value error, "
CLIENT_GONE = 499
"""The status of an answer that nobody reads any more, as nginx logs it."""


def make_app(service: ModelService) -> FastAPI:
    """Make the application; who may talk to it is `server_security.Guard`'s to say."""
    app = FastAPI(title="retrain serve", version=__version__, openapi_url=None)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(EngineFailure, _failed)
    _add_turns(app, service)
    _add_control(app, service)
    add_information(app, service)
    _add_router(app, service)
    return app


def _add_turns(app: FastAPI, service: ModelService) -> None:
    @app.post("/generate")
    async def generate(body: GenerateBody, request: Request) -> Response:
        key = request.headers.get(ROUTING_HEADER) or body.routing_key
        answer = await until_gone(request, service.turns.generate(body, key))
        return Response(status_code=CLIENT_GONE) if answer is None else JSONResponse(answer)

    @app.post("/abort_request")
    async def abort(body: AbortBody) -> Response:
        if body.abort_all or body.rid:
            await service.abort_and_wait(None if body.abort_all else body.rid)
        return Response()

    @app.post("/tokenize")
    async def tokenize(body: TokenizeBody) -> dict[str, Any]:
        tokens = service.turns.encode(body.prompt, special=body.add_special_tokens)
        longest = service.loaded.context_length
        return {"tokens": tokens, "count": len(tokens), "max_model_len": longest}


def _add_control(app: FastAPI, service: ModelService) -> None:
    @app.post("/pause_generation")
    async def pause(body: PauseBody) -> dict[str, str]:
        await service.pause(body.mode)
        return {"message": "Generation paused successfully.", "status": "ok"}

    @app.post("/continue_generation")
    async def resume(body: ContinueBody) -> dict[str, str]:
        await service.resume()
        return {"message": "Generation continued successfully.", "status": "ok"}

    @app.api_route("/flush_cache", methods=["GET", "POST"])
    async def flush() -> Response:
        if await service.flush():
            return PlainTextResponse("Cache flushed.\n")
        return PlainTextResponse("Requests are running: nothing was flushed.\n", 400)

    @app.post("/update_weights_from_disk")
    async def update(body: UpdateBody) -> Response:
        try:
            message = await service.update(body)
        except RequestRefused as refused:
            return JSONResponse({"success": False, "message": str(refused)}, 400)
        return JSONResponse({"success": True, "message": message, "num_paused_requests": 0})

    @app.post("/release_memory_occupation")
    async def release(body: MemoryBody) -> None:
        await service.release_memory(body.tags)

    @app.post("/resume_memory_occupation")
    async def take(body: MemoryBody) -> None:
        await service.resume_memory(body.tags)


def _add_router(app: FastAPI, service: ModelService) -> None:
    """The server is its own router, with itself as the only worker."""

    @app.get("/workers")
    async def workers(request: Request) -> dict[str, Any]:
        url = str(request.base_url).rstrip("/")
        return {"workers": [worker_answer(url, service.loaded.path)], "total": 1}

    @app.get("/list_workers")
    async def urls(request: Request) -> dict[str, Any]:
        return {"urls": [str(request.base_url).rstrip("/")]}

    @app.post("/workers")
    async def add_worker(body: WorkerBody, request: Request) -> Response:
        _check_own(body.url, request)
        content = {"status": "accepted", "worker_id": "0", "url": body.url}
        return JSONResponse(content, 202)

    @app.post("/add_worker")
    async def add_worker_by_query(url: str, request: Request) -> Response:
        _check_own(url, request)
        return PlainTextResponse(f"Successfully added worker: {url}")


async def until_gone(request: Request, work: Awaitable[dict[str, Any]]) -> dict[str, Any] | None:
    """Wait for `work`; a client that leaves cancels it.

    Returns:
        The result; None where the client has left.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for pending in (task, gone):
            pending.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _check_own(url: str, request: Request) -> None:
    """Refuse to route to anybody else.

    Raises:
        RequestRefused: `url` is not this server's own.
    """
    scheme, _, rest = url.rstrip("/").partition("://")
    name, port = host_name(rest), rest.rpartition(":")[2]
    ours = request.base_url.hostname or ""
    local = is_loopback(name) and is_loopback(ours)
    if scheme != "http" or not (name == ours or local) or port != str(request.base_url.port):
        raise RequestRefused(f"url: {url} is not this server, which routes to itself only")


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    message = "; ".join(map(_fault, error.errors()))
    if request.url.path == "/update_weights_from_disk":
        return JSONResponse({"success": False, "message": message}, 400)
    return JSONResponse(error_answer(message), 400)


def _fault(fault: Mapping[str, Any]) -> str:
    """One fault of a body: the field's name and what is wrong with it."""
    place = ".".join(str(part) for part in fault["loc"][1:])
    return f"{place}: {fault['msg'].removeprefix(_OURS)}".removeprefix(": ")


async def _failed(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, RequestRefused) else 500
    return JSONResponse(error_answer(str(error)), status)
