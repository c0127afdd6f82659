"""Bounds of one episode: tokens, turns and seconds."""

from __future__ import annotations

from dataclasses import dataclass

from retrain.types import StopReason


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """Bounds of one episode; None means unbounded.

    Attributes:
        max_response_len: Most tokens of the whole response, over all turns, replies included.
        max_tokens_per_turn: Most tokens that the model writes in one turn.
        max_context_len: Most tokens of prompt and response together.
        max_prompt_len: Most tokens of the first prompt.
        max_turns: Most model turns.
        step_timeout: Seconds that one `reset`, `step` or `close` may take.
        generate_timeout: Seconds that the engine may take for one turn.
        engine_retries: How often a failed turn is asked again, with the same seed.
    """

    max_response_len: int
    max_tokens_per_turn: int | None = None
    max_context_len: int | None = None
    max_prompt_len: int | None = None
    max_turns: int | None = None
    step_timeout: float | None = 60.0
    generate_timeout: float | None = 600.0
    engine_retries: int = 2

    def room(self, prompt_len: int, response_len: int) -> tuple[int, StopReason]:
        """How many tokens still fit, and which bound ends the episode when none does.

        Args:
            prompt_len: P, tokens of the first prompt.
            response_len: R, tokens written after it so far.
        """
        room = self.max_response_len - response_len
        if self.max_context_len is None:
            return room, StopReason.MAX_RESPONSE_LEN
        context = self.max_context_len - prompt_len - response_len
        if context < room:
            return context, StopReason.CONTEXT_OVERFLOW
        return room, StopReason.MAX_RESPONSE_LEN

    def turn_budget(self, room: int) -> int:
        """Most tokens of the next turn, given the room that is left."""
        return room if self.max_tokens_per_turn is None else min(room, self.max_tokens_per_turn)
