"""The token streams of one episode while it is played: one segment after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from retrain.types import Segment, StepResult, Turn


@dataclass(slots=True)
class EpisodeStream:
    """The segment that is being written, and those before it.

    Attributes:
        prompt_ids: The prompt of the segment.
        ids: Everything that the engine has seen and written of the segment.
        turns: The turns of the whole episode.
        images: What the segment shows, in order.
    """

    prompt_ids: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    images: tuple[str, ...] = ()
    _closed: list[Segment] = field(default_factory=list)
    _first_turn: int = 0
    _closed_len: int = 0
    _unanswered: int = 0

    @property
    def response_len(self) -> int:
        """Tokens behind the prompts of all segments: sampled ones and replies, each once."""
        return self._closed_len + len(self.ids) - len(self.prompt_ids)

    def begin(self, prompt_ids: list[int], images: tuple[str, ...] = ()) -> None:
        """Open a segment behind a prompt; the one before it, if there is one, is over."""
        if self.turns:
            self._closed_len = self.response_len
            self._closed.append(self._segment())
            self._first_turn = len(self.turns)
        self.prompt_ids = prompt_ids
        self.ids = list(prompt_ids)
        self.images, self._unanswered = images, 0

    def record(self, turn: Turn) -> None:
        """Append what the model sampled."""
        self.ids.extend(turn.output_ids)
        self.turns.append(turn)
        self._unanswered = 0

    def rate(self, result: StepResult) -> None:
        """Note what the environment said about the last turn."""
        self.turns[-1] = replace(self.turns[-1], reward=result.reward, info=result.info)

    def append(self, reply_ids: Sequence[int], images: tuple[str, ...] = ()) -> None:
        """Append the environment's reply to the last turn."""
        self.turns[-1] = replace(self.turns[-1], env_ids=tuple(reply_ids))
        self.ids.extend(reply_ids)
        self.images += images
        self._unanswered = len(images)

    def so_far(self) -> tuple[Segment, ...]:
        """The segments so far, the reply that the model has not answered yet included."""
        if not self.prompt_ids:
            return ()
        turns = tuple(self.turns[self._first_turn :])
        return (*self._closed, Segment(tuple(self.prompt_ids), turns, self.images))

    def segments(self) -> tuple[Segment, ...]:
        """The segments so far, each ending on a model token.

        A later segment begins with its first turn: a prompt that nobody wrote behind is left out.
        """
        if not self.prompt_ids:
            return ()
        begun = self._first_turn == 0 or len(self.turns) > self._first_turn
        return (*self._closed, self._segment()) if begun else tuple(self._closed)

    def _segment(self) -> Segment:
        turns = self.turns[self._first_turn :]
        turns[-1:] = [replace(turn, env_ids=()) for turn in turns[-1:]]
        answered = len(self.images) - self._unanswered
        return Segment(tuple(self.prompt_ids), tuple(turns), self.images[:answered])
