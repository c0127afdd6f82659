"""`rollout.stop_strings`: a turn ends where one of these texts is complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from retrain.engine.base import Generation, SamplingParams
from retrain.engine.stop_strings import StopStrings
from retrain.rendering.base import Renderer
from retrain.types import FinishReason


def strings_for(renderer: Renderer, texts: Sequence[str]) -> StopStrings | None:
    """The stop strings that engines may be told of; None where an engine could end too soon.

    Engines look for a text in what they have decoded so far, or in the last few tokens. Where every
    token has fixed bytes, a text that stands there stands in the whole turn too, and stays there
    whatever follows. Other decoders strip spaces, or take bytes back that turn out to be no
    character.

    Args:
        renderer: The model's renderer.
        texts: `rollout.stop_strings`.
    """
    if not texts or not renderer.decodes_bytes or any("\ufffd" in text for text in texts):
        return None
    return StopStrings(tuple(texts), renderer.decode)


def ended_too_soon(generation: Generation, params: SamplingParams) -> bool:
    """Whether a turn ended neither on a stop token nor behind a stop string that stands in it.

    Args:
        generation: What an engine wrote.
        params: How it was asked to; without stop strings it cannot have ended so.
    """
    if params.stop_strings is None or generation.finish_reason is not FinishReason.STOP:
        return False
    ids = generation.output_ids
    return ids[-1] not in params.stop_token_ids and not params.stop_strings.in_text_of(ids)


def cut_behind(
    generation: Generation, strings: Sequence[str], decode: Callable[[Sequence[int]], str]
) -> Generation:
    """A turn without what follows the token that completes a stop string.

    That token stays whole, so what is trained on is what was sampled; text of it behind the string
    stays too. Whatever the engine wrote behind it is left out, on every engine alike, whether it
    ends turns there by itself or not.

    Args:
        generation: What the engine wrote; one that was aborted goes on later, and is not cut.
        strings: The texts.
        decode: Tokens to text.
    """
    ids = generation.output_ids
    if not strings or generation.finish_reason is FinishReason.ABORT:
        return generation
    if not _holds(decode(ids), strings):
        return generation
    low, high = 1, len(ids)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _holds(decode(ids[:middle]), strings) else (middle + 1, high)
    if low == len(ids) and generation.finish_reason is FinishReason.STOP:
        return generation
    return replace(
        generation,
        output_ids=ids[:low],
        logprobs=generation.logprobs[:low],
        finish_reason=FinishReason.STOP,
        text="",
        meta=_cut_spans(generation.meta, low),
    )


def _holds(text: str, strings: Sequence[str]) -> bool:
    return any(string in text for string in strings)


def _cut_spans(meta: Any, length: int) -> Any:
    """The engine's figures, with the weight versions of the tokens that are left."""
    spans, left = [], length
    for count, version in meta.get("weight_spans", ()):
        if left > 0:
            spans.append((min(count, left), version))
        left -= count
    return {**meta, "weight_spans": tuple(spans)} if spans else meta
