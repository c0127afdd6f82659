"""A vLLM server in its development mode: it loads weights from folders, pauses and sleeps.

The endpoints are those of vLLM 0.31 (`vllm/entrypoints/serve/dev`).
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from served_model import Served
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from vllm_server import VLLMServer

SLEEPS = frozenset({"weights", "kv_cache"})


class LoadingVLLMServer(VLLMServer):
    """Loads weights.

    Attributes:
        weight_version: What /weight_info says.
        deaf: Whether loads report success and change nothing.
        paused: Whether requests wait.
        sleeping: Which memory it has given back.
        together: What a load waits for.
        held: How often the prefix cache is still held when it is to be reset.
    """

    def __init__(
        self, served: Served, *, named: bool = True, sleep_mode: bool = True, **options: Any
    ) -> None:
        """Serve a model.

        Args:
            served: The model.
            named: Whether it keeps a version; older servers do not.
            sleep_mode: Whether it was started with --enable-sleep-mode.
            options: Those of `VLLMServer`.
        """
        self.weight_version = "default"
        self.deaf = self.paused = False
        self.sleeping: set[str] = set()
        self.held = 0
        self.together: threading.Barrier | None = None
        self._named = named
        self._sleep_mode = sleep_mode
        super().__init__(served, **options)

    def start(self) -> None:
        """Listen; a server that was killed has forgotten its version, and is awake."""
        self.weight_version = "default"
        self.paused = False
        self.sleeping = set()
        paths = ["pause", "resume", "collective_rpc", "reset_prefix_cache", "server_info"]
        paths += [
            "sleep",
            "wake_up",
            "is_sleeping",
            *(["weight_info", "update_weight_version"] * self._named),
        ]
        for path in paths:
            handler = self._watched(getattr(self, f"_{path}"))
            self._app.add_route(f"/{path}", handler, methods=["GET", "POST"])
        super().start()

    async def _turn(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        while self.paused:
            await asyncio.sleep(0.01)
        assert not self.sleeping, "asleep, it cannot write"
        return await super()._turn(request, body)

    async def _pause(self, request: Request) -> Response:
        assert request.query_params["mode"] == "abort"
        self.paused = True
        while self.running:
            for session in list(self.running):
                await self.served.engine.abort(session)
            await asyncio.sleep(0.01)
        return JSONResponse({"status": "paused"})

    async def _resume(self, request: Request) -> Response:
        self.paused = False
        return JSONResponse({"status": "resumed"})

    async def _collective_rpc(self, request: Request) -> Response:
        body = await request.json()
        assert body["method"] == "reload_weights"
        assert "weights" not in self.sleeping, "there is nothing to load into"
        if self.together is not None:
            await asyncio.to_thread(self.together.wait, 120)
        if not self.deaf:
            try:
                self.served.load(body["kwargs"]["weights_path"])
            except OSError as error:
                message = f"Call to collective_rpc method failed: {error}"
                return JSONResponse({"error": {"message": message}}, status_code=500)
            self.served.engine.weights_changed("new")
        return JSONResponse({"results": [None]})

    async def _reset_prefix_cache(self, request: Request) -> Response:
        self.held -= 1
        return JSONResponse({"success": self.held < 0})

    async def _weight_info(self, request: Request) -> Response:
        return JSONResponse({"weight_version": self.weight_version})

    async def _update_weight_version(self, request: Request) -> Response:
        self.weight_version = (await request.json())["new_version"]
        return JSONResponse({"success": True, "new_version": self.weight_version})

    async def _server_info(self, request: Request) -> Response:
        assert request.query_params["config_format"] == "json"
        model = {"enable_sleep_mode": self._sleep_mode}
        return JSONResponse({"vllm_config": {"model_config": model}})

    async def _sleep(self, request: Request) -> Response:
        assert request.query_params["level"] == "2"
        self.paused = True
        self.sleeping = set(SLEEPS)
        return Response()

    async def _is_sleeping(self, request: Request) -> Response:
        return JSONResponse({"is_sleeping": self.paused or bool(self.sleeping)})

    async def _wake_up(self, request: Request) -> Response:
        self.sleeping -= set(request.query_params.getlist("tags")) or SLEEPS
        self.paused = bool(self.sleeping)
        return Response()
