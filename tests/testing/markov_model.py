"""A model of a few lines: the next token hangs on the last one, and the logprobs are exact."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from retrain.engine.base import SamplingParams
from retrain.seeds import derive_seed

VOCABULARY = 40


def logits(last: int) -> list[float]:
    return [derive_seed("logit", last, token) / 2**61 for token in range(VOCABULARY)]


def logprobs(last: int, temperature: float) -> list[float]:
    """Logprobs of every next token; greedy ones are those of temperature 1."""
    heat = temperature or 1.0
    scaled = [value / heat for value in logits(last)]
    total = math.log(math.fsum(map(math.exp, scaled)))
    return [value - total for value in scaled]


def write(
    input_ids: Sequence[int], params: SamplingParams, session_id: str, seed: int
) -> tuple[list[int], list[float]]:
    """A policy for `ScriptedEngine`: a turn of `max_tokens` tokens, stop tokens aside."""
    rng = random.Random(seed)
    last, ids, values = input_ids[-1], [], []
    for _ in range(params.max_tokens):
        row = logprobs(last, params.temperature)
        last = max(range(VOCABULARY), key=row.__getitem__)
        if params.temperature:
            last = rng.choices(range(VOCABULARY), [math.exp(value) for value in row])[0]
        ids.append(last)
        values.append(row[last])
    return ids, values
