"""A server with the endpoints that TRL's client calls, over the real in-process engine.

The endpoints are those of vLLM 0.31 (`vllm/entrypoints/serve/dev/rlhf/api_router.py`); weights come
over gloo (see `gloo_weights`).
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from gloo_weights import GlooGroup
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.append(str(Path(__file__).parents[1] / "engine" / "http_engines"))

from served_model import Served
from vllm_server import VLLMServer

from retrain.engine.transformers_engine import TransformersEngine


class TrainingServer(VLLMServer):
    """Takes weights.

    Attributes:
        deaf: Weights are received and thrown away.
        held: How often the prefix cache is still held when it is to be reset.
        updates: The names of each update.
    """

    def __init__(self, served: Served, *, transfer: bool = True, **options: Any) -> None:
        self.deaf = False
        self.held = 0
        self.updates: list[list[str]] = []
        self._transfer = transfer
        self._group: GlooGroup | None = None
        self._staged: dict[str, torch.Tensor] = {}
        super().__init__(served, **options)

    def start(self) -> None:
        for path in (
            "server_info",
            "get_world_size",
            "init_weight_transfer_engine",
            "start_weight_update",
            "update_weights",
            "finish_weight_update",
            "reset_prefix_cache",
        ):
            handler = self._watched(getattr(self, f"_{path}"))
            self._app.add_route(f"/{path}", handler, methods=["GET", "POST"])
        super().start()

    async def _server_info(self, request: Request) -> Response:
        transfer = {"backend": "nccl"} if self._transfer else None
        return JSONResponse({"vllm_config": {"weight_transfer_config": transfer}})

    async def _get_world_size(self, request: Request) -> Response:
        return JSONResponse({"world_size": 1})

    async def _init_weight_transfer_engine(self, request: Request) -> Response:
        info = (await request.json())["init_info"]
        place = info["master_address"], info["master_port"], info["rank_offset"]
        self._group = await asyncio.to_thread(GlooGroup, *place, info["world_size"])
        return JSONResponse({"message": "Weight transfer initialized"})

    async def _start_weight_update(self, request: Request) -> Response:
        self._staged = {}
        return JSONResponse({"message": "Weight update started"})

    async def _update_weights(self, request: Request) -> Response:
        info = (await request.json())["update_info"]
        await asyncio.to_thread(self._receive, info)
        self.updates.append(info["names"])
        return JSONResponse({"message": "Weights updated"})

    async def _finish_weight_update(self, request: Request) -> Response:
        if not self.deaf:
            unknown = self.served.model.load_state_dict(self._staged, strict=False).unexpected_keys
            assert not unknown
            self.served.engine.weights_changed(str(len(self.updates)))
        return JSONResponse({"message": "Weight update finished"})

    async def _reset_prefix_cache(self, request: Request) -> Response:
        self.held -= 1
        return JSONResponse({"success": self.held < 0})

    def _receive(self, info: dict[str, Any]) -> None:
        assert self._group is not None
        described = zip(info["names"], info["dtype_names"], info["shapes"], strict=True)
        for name, dtype, shape in described:
            self._staged[name] = torch.empty(shape, dtype=getattr(torch, dtype))
            self._group.broadcast(self._staged[name], 0)


Start = Callable[..., TrainingServer]


@contextmanager
def serving(model_dir: Path, kind: type[TrainingServer] = TrainingServer) -> Iterator[Start]:
    """A function that starts servers of a model of their own, which is read from `model_dir`."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = AutoModelForCausalLM.from_pretrained(model_dir)
    engine = TransformersEngine(model, max_slots=8, max_seq_len=512, eviction_grace=0.0)
    servers: list[TrainingServer] = []

    def make(**options: Any) -> TrainingServer:
        servers.append(kind(Served(str(model_dir), model, tokenizer, engine), **options))
        return servers[-1]

    try:
        yield make
    finally:
        for server in servers:
            server.kill()
        engine.close()


def server_options(server: TrainingServer) -> dict[str, Any]:
    """The hyperparameters of a run that trains with `server`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {
        "trl_vllm_mode": "server",
        "trl_vllm_server_base_url": server.url,
        "trl_vllm_server_timeout": 1.0,
        "trl_vllm_group_port": port,
    }
