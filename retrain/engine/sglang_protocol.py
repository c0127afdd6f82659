"""SGLang's native /generate: what a request says, and what an answer must hold.

The protocol is that of SGLang 0.5.15: `srt/managers/io_struct.py` (GenerateReqInput).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from retrain.engine.base import Generation, SamplingParams
from retrain.engine.http_answer import check_prompt_tokens, check_stop_kept, finish_reason
from retrain.errors import EngineFailure
from retrain.vision.base import VisionProcessor, collapse

ROUTING_HEADER = "X-SMG-Routing-Key"
"""By which sglang-router sends a session's turns to one worker (its policy `manual`)."""
NO_LOGPROBS = (
    "the server gives no logprobs of the tokens that it writes, and training needs them; it must "
    "be a SGLang server that answers /generate with return_logprob"
)


def image_body(
    input_ids: Sequence[int], images: Sequence[str], vision: VisionProcessor
) -> dict[str, Any]:
    """The part of a request that shows images: one placeholder for each, and the images as PNG.

    SGLang puts as many placeholders in as its own image processor counts, and keeps the other ids
    as they are (`SGLANG_MM_AVOID_RETOKENIZE`, on by default; a server without it decodes the ids
    and encodes the text again). Images go in the size that the processor gives them, so that it
    counts as ours does; `read_generation` compares the sums.

    Args:
        input_ids: The stream, each image as the placeholders that it takes.
        images: The images, in their order.
        vision: Counts and resizes.
    """
    return {
        "input_ids": collapse(input_ids, images, vision),
        "image_data": [png_uri(vision.picture(image)) for image in images],
    }


def png_uri(picture: Any) -> str:
    """An RGB picture of Pillow as a `data:` URI, without loss."""
    written = BytesIO()
    picture.save(written, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode('ascii')}"


def generate_body(input_ids: list[int], params: SamplingParams, seed: int | None) -> dict[str, Any]:
    """A request: everything that a server's own defaults could change is said."""
    sampling = {
        "max_new_tokens": params.max_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
        "min_p": 0.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "stop_token_ids": sorted(params.stop_token_ids),
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "no_stop_trim": True,
    }
    if params.stop_strings is not None:
        sampling["stop"] = list(params.stop_strings.texts)
    if seed is not None:
        sampling["sampling_seed"] = seed
    return {
        "input_ids": input_ids,
        "sampling_params": sampling,
        "return_logprob": True,
        "stream": False,
    }


def read_generation(url: str, reply: Any, sent: int, version: str) -> Generation:
    """Read a reply of /generate.

    Raises:
        EngineFailure: It holds no logprobs, or ids that differ from those of its logprobs.
    """
    meta = reply.get("meta_info") if isinstance(reply, dict) else None
    if not isinstance(meta, dict):
        raise EngineFailure(f"{url}: /generate answers without meta_info; is it a SGLang server?")
    pairs = meta.get("output_token_logprobs")
    if pairs is None:
        raise EngineFailure(f"{url}: {NO_LOGPROBS}")
    finish = meta.get("finish_reason") or {}
    ids, logprobs = _columns(pairs)
    written = tuple(reply.get("output_ids", ids))
    if written != ids:
        raise EngineFailure(
            f"{url}: {len(written)} output_ids, and logprobs of {len(ids)} tokens, which differ"
        )
    check_prompt_tokens(url, sent, meta.get("prompt_tokens"))
    check_stop_kept(url, ids, finish.get("matched"))
    return Generation(
        ids,
        logprobs,
        finish_reason(finish.get("type"), url),
        text=reply.get("text") or "",
        weight_version=str(meta.get("weight_version", version)),
        meta={"cached_tokens": int(meta.get("cached_tokens") or 0), "server": url},
    )


def _columns(pairs: Any) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The tokens and the logprobs of `output_token_logprobs`: [[logprob, id, text], …]."""
    if not pairs:
        return (), ()
    logprobs, ids, *_ = zip(*pairs, strict=False)
    return tuple(map(int, ids)), tuple(map(float, logprobs))
