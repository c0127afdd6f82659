"""Bounds of one episode: tokens, turns and seconds."""

from __future__ import annotations

from dataclasses import dataclass

from retrain.types import StopReason


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """Bounds of one episode; None means unbounded.

    Attributes:
        max_response_len: Most tokens of the whole response, over all turns, replies included. What
            stands in the prompt of a rewritten history is no part of it.
        max_tokens_per_turn: Most tokens that the model writes in one turn.
        max_context_len: Most tokens of prompt and response together, of each segment.
        max_prompt_len: Most tokens of the first prompt; later ones are bounded by the context.
        max_turns: Most model turns.
        step_timeout: Seconds that one `reset`, `step` or `close` may take.
        generate_timeout: Seconds that the engine may take for one turn.
        engine_retries: How often a failed turn is asked again, with the same seed.
        stop_strings: Texts that end a turn.
        max_restarts: How often an episode whose worker died begins again, with the same seeds.
    """

    max_response_len: int
    max_tokens_per_turn: int | None = None
    max_context_len: int | None = None
    max_prompt_len: int | None = None
    max_turns: int | None = None
    step_timeout: float | None = 60.0
    generate_timeout: float | None = 600.0
    engine_retries: int = 2
    max_restarts: int = 3
    stop_strings: tuple[str, ...] = ()

    def room(self, stream_len: int, response_len: int) -> tuple[int, StopReason]:
        """How many tokens still fit, and which bound ends the episode when none does.

        Args:
            stream_len: Tokens of the segment so far, its prompt included.
            response_len: Tokens of the episode's response so far, over all segments.
        """
        room = self.max_response_len - response_len
        if self.max_context_len is None:
            return room, StopReason.MAX_RESPONSE_LEN
        context = self.max_context_len - stream_len
        if context < room:
            return context, StopReason.CONTEXT_OVERFLOW
        return room, StopReason.MAX_RESPONSE_LEN

    def turn_budget(self, room: int) -> int:
        """Most tokens of the next turn, given the room that is left."""
        return room if self.max_tokens_per_turn is None else min(room, self.max_tokens_per_turn)
