"""The viewer's HTTP interface: the page's files, and what it asks about the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import PurePath
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from retrain.errors import DataError
from retrain.view.assets import TYPES, read_asset
from retrain.view.encoding import encoded
from retrain.view.following import Following
from retrain.view.requests import BadRequest, read_query, read_window
from retrain.view.security import LocalOnly
from retrain.view.shown_runs import ShownRuns

PAGE = "index.html"
_EVENTS_SECONDS = 0.5
_HEARTBEAT_SECONDS = 15.0


def make_app(runs: ShownRuns, *, title: str) -> LocalOnly:
    """The application that shows some runs.

    Args:
        runs: The runs.
        title: What the page calls them together.
    """
    app = FastAPI(title="retrain view", openapi_url=None, docs_url=None, redoc_url=None)
    _serve_page(app)
    _serve_runs(app, runs, title)
    _serve_events(app, runs)
    app.add_exception_handler(BadRequest, _refuse(400))
    app.add_exception_handler(DataError, _refuse(404))
    return LocalOnly(app)


def _serve_page(app: FastAPI) -> None:
    @app.get("/")
    async def page() -> Response:
        return _file(PAGE)

    @app.get("/assets/{name}")
    async def asset(name: str) -> Response:
        try:
            return _file(name)
        except KeyError:
            return Response(f"the page has no file {name!r}", 404, media_type="text/plain")


def _serve_runs(app: FastAPI, shown: ShownRuns, title: str) -> None:
    @app.get("/api/runs")
    async def runs() -> Response:
        await asyncio.to_thread(shown.look)
        return _json({"title": title, "runs": shown.names})

    @app.get("/api/run/{run}")
    async def run(run: str) -> Response:
        return await _answer(shown.of(run).run)

    @app.get("/api/list/{run}")
    async def listing(run: str, request: Request) -> Response:
        query, window = read_query(request.query_params), read_window(request.query_params)
        return await _answer(shown.of(run).listing, query, window)

    @app.get("/api/episode/{run}/{id}")
    async def episode(run: str, id: str) -> Response:
        return await _answer(shown.of(run).episode, id)

    @app.get("/api/image/{run}/{id}/{image}")
    async def picture(run: str, id: str, image: str) -> Response:
        found = await asyncio.to_thread(shown.of(run).picture, id, image)
        return Response(found.data, media_type=found.kind)

    @app.get("/api/raw/{run}/{id}")
    async def raw(run: str, id: str) -> Response:
        return await _answer(shown.of(run).raw, id)

    @app.get("/api/group/{run}/{id}")
    async def group(run: str, id: str) -> Response:
        return await _answer(shown.of(run).group, id)

    @app.get("/api/charts/{run}")
    async def charts(run: str) -> Response:
        return await _answer(shown.of(run).charts)


def _serve_events(app: FastAPI, shown: ShownRuns) -> None:
    @app.get("/api/events/{run}")
    async def events(run: str, request: Request) -> Response:
        stream = _events(shown, shown.of(run).following, request)
        return StreamingResponse(stream, media_type="text/event-stream")


async def _events(runs: ShownRuns, following: Following, request: Request) -> AsyncIterator[bytes]:
    """One event whenever the run has something new; a comment now and then keeps it open."""
    shown: object = None
    quiet = 0.0
    while not (following.stopped or await request.is_disconnected()):
        await asyncio.to_thread(runs.look)
        stamp = (*following.stamp, runs.names)
        if stamp != shown:
            shown, quiet = stamp, 0.0
            yield b"event: change\ndata: " + encoded(stamp) + b"\n\n"
        elif quiet >= _HEARTBEAT_SECONDS:
            quiet = 0.0
            yield b": still here\n\n"
        await asyncio.sleep(_EVENTS_SECONDS)
        quiet += _EVENTS_SECONDS


async def _answer(ask: Any, *given: Any) -> Response:
    """An answer that is found in a thread, since it may read files."""
    return await asyncio.to_thread(lambda: _json(ask(*given)))


def _json(value: Any) -> Response:
    return Response(encoded(value), media_type="application/json")


def _file(name: str) -> Response:
    kind = TYPES.get(PurePath(name).suffix, "")
    return Response(read_asset(name), media_type=f"{kind}; charset=utf-8")


def _refuse(status: int) -> Any:
    async def answer(request: Request, error: Exception) -> Response:
        return Response(encoded({"error": str(error)}), status, media_type="application/json")

    return answer
