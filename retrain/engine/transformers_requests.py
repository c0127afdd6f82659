"""One turn that is asked for, and its place while it is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from retrain.engine.base import Generation, SamplingParams
from retrain.engine.transformers_cache import Span
from retrain.engine.transformers_slots import Slot
from retrain.errors import EngineFailure


@dataclass(slots=True, eq=False)
class Request:
    """One turn to write.

    Attributes:
        session_id: Whose turn it is.
        prompt: The whole stream so far.
        params: How to sample.
        seed: The turn's seed.
        images: What the prompt shows, in order.
        output_ids: What is written so far.
        logprobs: The logprob of each.
        cached_tokens: How many tokens of the prompt did not have to be computed.
        weight_version: The weights when it was submitted, the oldest that had a part in it.
        result: What the caller gets, once it is known.
    """

    session_id: str
    prompt: list[int]
    params: SamplingParams
    seed: int
    images: Sequence[str] = ()
    output_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    cached_tokens: int = 0
    weight_version: str = "0"
    result: Generation | EngineFailure | None = None


@dataclass(slots=True, eq=False)
class Run:
    """A request on its slot.

    Attributes:
        request: The request.
        slot: Its slot.
        stream: The prompt and what has been written.
        leader: A slot whose first `shared` tokens are the stream's too, computed or soon to be.
        shared: How many.
    """

    request: Request
    slot: Slot
    stream: list[int]
    leader: Slot | None = None
    shared: int = 0

    @property
    def pending(self) -> int:
        """How many tokens of the stream the slot does not hold."""
        return len(self.stream) - len(self.slot.tokens)

    def next_tokens(self, count: int) -> Span:
        """The next tokens of the stream that the slot does not hold, at most `count`."""
        start = len(self.slot.tokens)
        images = () if start else self.request.images
        return Span(self.slot.index, start, self.stream[start : start + count], images)


Work = tuple[Run, Span]
"""A run, and the tokens of its stream to compute."""
