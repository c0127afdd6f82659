"""A server that answers /generate as SGLang does with images, over the in-process engine.

It puts placeholders in by its own image processor, which decodes the pictures that it was sent, and
keeps the other ids (`SGLANG_MM_AVOID_RETOKENIZE` of SGLang's `base_processor.py`).
"""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import Any

from loopback_server import LoopbackServer
from PIL import Image
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from transformers import AutoConfig, AutoImageProcessor

from retrain.engine.base import SamplingParams
from retrain.engine.transformers_engine import TransformersEngine


class SeeingServer(LoopbackServer):
    """Generates with an engine of its own.

    Attributes:
        more: How many placeholders too many it puts in for each image.
    """

    def __init__(self, model: Path, engine: TransformersEngine, folder: Path) -> None:
        self.more = 0
        self._model, self._engine, self._folder = str(model), engine, folder
        self._processor: Any = AutoImageProcessor.from_pretrained(model)  # type: ignore[no-untyped-call]
        self._placeholder = AutoConfig.from_pretrained(model).image_token_id
        super().__init__(
            {
                "/health": self._empty,
                "/model_info": self._info,
                "/server_info": self._info,
                "/tokenize": self._no_tokenizer,
                "/generate": self._generate,
            }
        )

    async def _empty(self, request: Request) -> Response:
        return Response()

    async def _no_tokenizer(self, request: Request) -> Response:
        return Response(status_code=404)

    async def _info(self, request: Request) -> Response:
        about = {"model_path": self._model, "enable_deterministic_inference": True}
        return JSONResponse(about)

    async def _generate(self, request: Request) -> Response:
        body = await request.json()
        rid = body.get("rid", "check")
        paths = [self._saved(uri, rid, at) for at, uri in enumerate(body.get("image_data", []))]
        ids = self._expanded(body["input_ids"], paths)
        asked = body["sampling_params"]
        params = SamplingParams(
            asked["max_new_tokens"],
            asked["temperature"],
            stop_token_ids=frozenset(asked["stop_token_ids"]),
        )
        seed = asked.get("sampling_seed", 0)
        written = await self._engine.generate(ids, params, session_id=rid, seed=seed, images=paths)
        await self._engine.release(rid)
        pairs = list(zip(written.logprobs, written.output_ids, strict=True))
        top = [[(-0.5 if asked["temperature"] == 1.0 else -0.1, 0, None)]]
        meta = {
            "finish_reason": {"type": written.finish_reason.value},
            "prompt_tokens": len(ids) + self.more * len(paths),
            "output_token_logprobs": [[*pair, None] for pair in pairs],
            "output_top_logprobs": top,
        }
        return JSONResponse({"text": "", "output_ids": written.output_ids, "meta_info": meta})

    def _saved(self, uri: str, rid: str, at: int) -> str:
        head, _, data = uri.partition(",")
        assert head == "data:image/png;base64"
        path = self._folder / f"{rid}-{at}.png"
        Image.open(BytesIO(base64.b64decode(data))).save(path)
        return str(path)

    def _expanded(self, ids: list[int], paths: list[str]) -> list[int]:
        counts = []
        for path in paths:
            given = self._processor(images=[Image.open(path)], return_tensors="pt")
            counts.append(int(given["image_grid_thw"].prod()) // self._processor.merge_size**2)
        assert ids.count(self._placeholder) == len(counts), "one placeholder for each image"
        rest = iter(counts)
        return [i for one in ids for i in [one] * (next(rest) if one == self._placeholder else 1)]
