"""`EpisodeRecord`: how far an episode was, for another process to go on from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from retrain.errors import DataError
from retrain.types import Message, Observation, Segment, StepResult, Turn

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """How far an episode was.

    Attributes:
        segments: Its streams, with whole turns only; the last one ends on the environment's reply
            where the model was to answer it.
        partial: The turn that was being written, with what there is of it.
        said: The messages of the first prompt and of each reply; empty where they are not known.
        snapshot: What `Environment.snapshot` gave; None where it gave nothing.
    """

    segments: tuple[Segment, ...]
    partial: Turn | None = None
    said: tuple[tuple[Message, ...], ...] = ()
    snapshot: Any = None

    def requests(self) -> Iterator[tuple[tuple[int, ...], Turn]]:
        """The stream that the engine was asked to go on from, and the turn, one after the other."""
        for segment in self.segments:
            stream = segment.prompt_ids
            for turn in segment.turns:
                yield stream, turn
                stream += (*turn.output_ids, *turn.env_ids)

    def replies(self, *, rewrites: bool) -> Iterator[StepResult]:
        """What the environment answered, turn by turn.

        Where a segment ended, an environment that rewrites history gave the whole new one; else it
        was the template that rewrote it. A wrong guess gives a prompt that is not the recorded one.

        Args:
            rewrites: Whether the environment declares that it rewrites history.
        """
        said = iter(self.said[1:])
        for segment in self.segments:
            for turn, messages in zip(segment.turns, said, strict=False):
                ended = turn is segment.turns[-1] and segment is not self.segments[-1]
                observation = Observation(messages, rewrite=rewrites and ended)
                yield StepResult(observation, turn.reward, info=turn.info)

    @property
    def waiting(self) -> tuple[int, ...] | None:
        """The stream that the model was to go on from; None where it was not its turn."""
        if not self.segments:
            return None
        last = self.segments[-1]
        return last.ids if not last.turns or last.turns[-1].env_ids else None

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        row: dict[str, Any] = _records().dump_python(self, mode="json")
        return row

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> EpisodeRecord:
        """Read what `to_json` gave.

        Raises:
            DataError: It is damaged.
        """
        return read_row(_records(), row, "the record of an episode")


def read_row(rows: TypeAdapter[T], row: Mapping[str, Any], what: str) -> T:
    """Read a row of the saved state.

    Args:
        rows: Reads what the row holds.
        row: The row.
        what: What it holds, for the message.

    Raises:
        DataError: It is damaged.
    """
    try:
        return rows.validate_python(row)
    except ValidationError as error:
        raise DataError(
            f"rollout state: {what} is damaged ({error.errors()[0]['msg']}); resume from another "
            "checkpoint"
        ) from error


@cache
def _records() -> TypeAdapter[EpisodeRecord]:
    return TypeAdapter(EpisodeRecord)
