"""The routes by which a server tells about itself: health, model, versions and load."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response

from retrain import __version__
from retrain.engine.server_answers import loads_answer
from retrain.engine.server_service import ModelService


def add_information(app: FastAPI, service: ModelService) -> None:
    """Add the routes, under the names that SGLang and slime know them by."""

    @app.get("/health")
    @app.get("/health_generate")
    async def health() -> Response:
        well = not service.requests.stopping and await service.healthy()
        return Response(status_code=200 if well else 503)

    @app.get("/model_info")
    @app.get("/get_model_info")
    async def model_info() -> dict[str, Any]:
        return _model_info(service)

    @app.get("/server_info")
    @app.get("/get_server_info")
    async def server_info() -> dict[str, Any]:
        return _server_info(service)

    @app.get("/get_weight_version")
    @app.get("/weight_version")
    async def weight_version() -> dict[str, str]:
        return {"weight_version": service.versions.current}

    @app.get("/v1/loads")
    async def loads() -> dict[str, Any]:
        requests = service.requests
        most = service.loaded.max_running_requests
        running = min(len(requests.running), most)
        waiting = len(requests.running) - running + requests.waiting
        return loads_answer(running=running, waiting=waiting, most=most)


def _model_info(service: ModelService) -> dict[str, Any]:
    config = service.loaded.model.config
    return {
        **_named(service),
        "is_generation": True,
        "preferred_sampling_params": None,
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": config.model_type,
        "architectures": config.architectures,
    }


def _server_info(service: ModelService) -> dict[str, Any]:
    return {
        **_named(service),
        "tp_size": 1,
        "pp_size": 1,
        "dp_size": 1,
        "ep_size": 1,
        "disaggregation_mode": "null",
        "enable_memory_saver": False,  # slime expects its own setting here
        "releases_memory": True,
        "enable_deterministic_inference": True,
        "skip_tokenizer_init": service.loaded.tokenizer is None,
        "context_length": service.loaded.context_length,
        "max_running_requests": service.loaded.max_running_requests,
        "version": f"retrain {__version__}",
    }


def _named(service: ModelService) -> dict[str, Any]:
    return {
        "model_path": service.model_path,
        "tokenizer_path": service.loaded.path,
        "weight_version": service.versions.current,
    }
