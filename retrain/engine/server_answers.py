"""What the server answers, in SGLang's shape.

The shape is that of SGLang 0.5.15: `srt/managers/tokenizer_manager.py` (meta_info),
`srt/managers/schedule_batch.py` (finish reasons) and `srt/entrypoints/v1_loads.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from retrain import __version__
from retrain.engine.base import Generation
from retrain.types import FinishReason


def generation_answer(
    rid: str,
    written: Generation,
    *,
    prompt_tokens: int,
    matched: int | str | None,
    text: str,
    logprobs: bool,
    top_logprob: tuple[int, float] | None,
    seconds: float,
) -> dict[str, Any]:
    """The answer to /generate.

    Args:
        rid: The request's id.
        written: What the engine wrote, a stop token included.
        prompt_tokens: Tokens of the prompt.
        matched: The stop token or the stop string that ended it; None where neither did.
        text: `written` decoded.
        logprobs: Whether they were asked for.
        top_logprob: The likeliest first token and its logprob, where asked for.
        seconds: From the request's arrival until now.
    """
    meta: dict[str, Any] = {
        "id": rid,
        "finish_reason": finish_reason(written, matched),
        "prompt_tokens": prompt_tokens,
        "weight_version": written.weight_version,
        "completion_tokens": len(written.output_ids),
        "cached_tokens": int(written.meta.get("cached_tokens", 0)),
        "e2e_latency": seconds,
    }
    if logprobs:
        pairs = zip(written.logprobs, written.output_ids, strict=True)
        meta["input_token_logprobs"] = []
        meta["output_token_logprobs"] = [[logprob, token, None] for logprob, token in pairs]
    if top_logprob is not None:
        token, logprob = top_logprob
        meta["output_top_logprobs"] = [[[logprob, token, None]]]
    return {"text": text, "output_ids": list(written.output_ids), "meta_info": meta}


def finish_reason(written: Generation, matched: int | str | None) -> dict[str, Any]:
    """Why a generation ended."""
    if written.finish_reason is FinishReason.STOP:
        return {"type": "stop", "matched": matched}
    if written.finish_reason is FinishReason.LENGTH:
        return {"type": "length", "length": len(written.output_ids)}
    return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


def loads_answer(*, running: int, waiting: int, most: int) -> dict[str, Any]:
    """The answer to /v1/loads."""
    load = {
        "dp_rank": 0,
        "num_running_reqs": running,
        "num_waiting_reqs": waiting,
        "max_running_requests": most,
        "utilization": min(1.0, running / most),
    }
    return {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": __version__,
        "loads": [load],
    }


def worker_answer(url: str, model: str) -> dict[str, Any]:
    """A worker as sglang-router lists it."""
    return {
        "id": "0",
        "url": url,
        "model_id": model,
        "worker_type": "regular",
        "priority": 50,
        "cost": 1.0,
        "is_healthy": True,
        "load": 0,
        "connection_mode": "Http",
    }


def error_answer(message: str) -> Mapping[str, Any]:
    """An error as SGLang answers it."""
    return {"error": {"message": message}}
