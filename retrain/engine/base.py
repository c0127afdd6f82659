"""The `InferenceEngine` protocol: token ids in, token ids and logprobs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from retrain.engine.stop_strings import StopStrings
from retrain.types import FinishReason


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample.

    Attributes:
        max_tokens: Most tokens to write, the stop token included.
        temperature: Divides the logits; 0 is greedy.
        top_p: Nucleus; 1.0 is off.
        top_k: -1 is off.
        stop_token_ids: Writing any of these ends the turn; the token is kept in the output.
        stop_strings: Texts behind which an engine may end the turn, though not before the token
            that completes one, which is kept too; None is none.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    stop_token_ids: frozenset[int] = frozenset()
    stop_strings: StopStrings | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """What an engine wrote.

    Attributes:
        output_ids: The sampled ids, a sampled stop token included.
        logprobs: Their logprobs in nats: tempered, before top-p and top-k cut the distribution.
        finish_reason: stop, length or abort.
        text: The ids decoded; "" where the engine does not decode.
        weight_version: The weights that wrote them.
        meta: Engine-specific figures; "cached_tokens" is always there.
    """

    output_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    text: str = ""
    weight_version: str = "0"
    meta: Mapping[str, Any] = field(default_factory=lambda: {"cached_tokens": 0})


@dataclass(frozen=True, slots=True)
class EngineCapabilities:
    """What an engine can do.

    Attributes:
        seeded: The same seed and prompt give the same tokens.
        abortable: `abort` ends a running request.
        images: Prompts may hold images.
        weight_update: `update_weights_from_checkpoint` works.
    """

    seeded: bool = False
    abortable: bool = False
    images: bool = False
    weight_update: bool = False


@runtime_checkable
class InferenceEngine(Protocol):
    """Writes the model's turns. One `session_id` is one episode's growing token stream."""

    @property
    def capabilities(self) -> EngineCapabilities:
        """What this engine can do."""
        ...

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Continue `input_ids`.

        Args:
            input_ids: The whole stream so far.
            params: How to sample.
            session_id: Lets the engine keep its KV cache over the turns of one episode.
            seed: Seed of this one turn.
            images: Images of the prompt.

        Raises:
            EngineFailure: The engine could not answer.
        """
        ...

    async def abort(self, session_id: str) -> None:
        """End the session's running request; it returns with finish reason abort."""
        ...

    async def release(self, session_id: str) -> None:
        """Forget the session and free what is kept for it."""
        ...
