"""What a request must hold before a model is asked: some servers crash on an id too many."""

from __future__ import annotations

from collections.abc import Sequence

from retrain.engine.base import SamplingParams
from retrain.errors import EngineFailure


def check_request(
    input_ids: Sequence[int],
    params: SamplingParams,
    *,
    vocab_size: int | None,
    model: str = "the model",
) -> None:
    """Refuse what no model should be asked.

    Args:
        input_ids: The prompt.
        params: How to sample.
        vocab_size: Ids that the model knows are below it; None where it is not known.
        model: Its name, for messages.

    Raises:
        EngineFailure: The prompt is empty, an id or a sampling parameter cannot be.
    """
    if not input_ids:
        raise EngineFailure("the prompt is empty: a model needs at least one token")
    lowest, highest = min(input_ids), max(input_ids)
    if lowest < 0 or (vocab_size is not None and highest >= vocab_size):
        raise EngineFailure(
            f"token ids from {lowest} to {highest}: {model} knows 0 to "
            f"{'?' if vocab_size is None else vocab_size - 1}"
        )
    if params.max_tokens < 1:
        raise EngineFailure(f"max_tokens is {params.max_tokens}, expected at least 1")
    if params.temperature < 0 or not 0 < params.top_p <= 1:
        raise EngineFailure(
            f"temperature {params.temperature:g} and top_p {params.top_p:g}: expected "
            "temperature >= 0 and 0 < top_p <= 1"
        )
