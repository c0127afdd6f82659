"""Of which distribution a server gives logprobs: found out by asking, since no server says."""

from __future__ import annotations

from enum import StrEnum

from retrain.engine.base import SamplingParams

HOT = 2.0
"""The temperature of the second question, which flattens any distribution; vLLM takes 0 to 2."""
PROBE_IDS = tuple(range(1, 9))
"""The prompt of both questions: any vocabulary has these, and not all of them are padding, after
which an untrained model is uniform at every temperature."""
_NOISE = 0.01
"""Nats by which the same logprob may differ between two requests."""


class LogprobMode(StrEnum):
    """What a server's logprobs are of."""

    RAW = "raw"
    TEMPERED = "tempered"


def logprob_mode(cool: float, hot: float) -> LogprobMode:
    """Tell the mode from the logprob of the likeliest token after one prompt, asked twice.

    Untempered logprobs do not depend on the temperature asked for. Tempered ones of the likeliest
    token are lower at the temperature `HOT`.

    Args:
        cool: The logprob at temperature 1.
        hot: The logprob at temperature `HOT`.
    """
    return LogprobMode.TEMPERED if cool - hot > _NOISE else LogprobMode.RAW


def why_not_exact(mode: LogprobMode, params: SamplingParams, *, truncated: bool) -> str | None:
    """Why a server's logprobs are not the tempered, untruncated ones; None where they are.

    Greedy sampling (temperature 0) is untempered and untruncated on every server.

    Args:
        mode: What its logprobs are of.
        params: How to sample.
        truncated: Whether its tempered logprobs are those after top-p and top-k, renormalised.
    """
    if params.temperature == 0:
        return None
    if mode is LogprobMode.RAW and params.temperature != 1:
        return f"it gives untempered logprobs, and the temperature is {params.temperature:g}"
    cut = params.top_p < 1 or params.top_k > 0
    if cut and truncated and mode is LogprobMode.TEMPERED:
        return (
            f"it gives logprobs after top_p {params.top_p:g} and top_k {params.top_k} have cut the "
            "distribution"
        )
    return None
