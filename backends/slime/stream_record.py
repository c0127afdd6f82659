"""`StreamRecord`: what an episode's engine was asked and wrote, before the episode is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from retrain.engine.base import Generation
from retrain.types import Action, Segment, Turn


@dataclass(slots=True)
class _Written:
    generation: Generation
    seed: int
    env_ids: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.generation.output_ids) + len(self.env_ids)


@dataclass(slots=True)
class _Stream:
    prompt_ids: tuple[int, ...]
    turns: list[_Written] = field(default_factory=list)

    @property
    def begun(self) -> list[_Written]:
        """The turns that have tokens; the last one may have none yet."""
        return [turn for turn in self.turns if turn.generation.output_ids]


class StreamRecord:
    """The token streams of an episode, read off its requests.

    A request begins with the whole stream that it goes on from. What stands in it beyond that is
    the environment's reply; one that goes on from something else opens another stream.

    Attributes:
        stale: [streams] how many tokens after the prompt stood there at the last `mark_stale`.
    """

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self.stale: tuple[int, ...] = ()
        self._session = ""
        self._streams: list[_Stream] = []
        self._ids: list[int] = []

    def asked(self, session_id: str, input_ids: Sequence[int]) -> None:
        """Note a request; another session is the episode begun again."""
        if session_id != self._session:
            self._session, self._streams, self._ids, self.stale = session_id, [], [], ()
        ids = list(input_ids)
        known = len(self._ids)
        if self._streams and ids[:known] == self._ids:
            if len(ids) > known:
                self._streams[-1].turns[-1].env_ids = tuple(ids[known:])
        else:
            self._streams.append(_Stream(tuple(ids)))
        self._ids = ids

    def wrote(self, generation: Generation, seed: int) -> None:
        """Note the answer to the last request: a whole turn, or what there is of one."""
        self._streams[-1].turns.append(_Written(generation, seed))
        self._ids += generation.output_ids

    def take_back(self) -> None:
        """Forget the last answer: its turn goes on."""
        written = self._streams[-1].turns.pop()
        del self._ids[len(self._ids) - len(written.generation.output_ids) :]

    @property
    def tokens(self) -> int:
        """How many tokens the streams hold."""
        prompts = sum(len(stream.prompt_ids) for stream in self._streams)
        return prompts + sum(self._response_lengths())

    @property
    def seeds(self) -> list[int]:
        """The seed of every turn that has tokens, over all streams."""
        return [turn.seed for stream in self._streams for turn in stream.begun]

    def mark_stale(self) -> None:
        """Remember what is written so far: other weights write the rest."""
        self.stale = self._response_lengths()

    def _response_lengths(self) -> tuple[int, ...]:
        return tuple(sum(map(len, stream.begun)) for stream in self._streams)

    def segments(self, parse: Callable[[Sequence[int]], Action]) -> tuple[Segment, ...]:
        """The streams as an episode's segments; each ends on a model token.

        Args:
            parse: Reads a turn; rewards are not known here.
        """
        return tuple(_segment(stream, parse) for stream in self._streams)


def _segment(stream: _Stream, parse: Callable[[Sequence[int]], Action]) -> Segment:
    turns = [_turn(written, parse) for written in stream.begun]
    turns[-1:] = [replace(turn, env_ids=()) for turn in turns[-1:]]
    return Segment(stream.prompt_ids, tuple(turns))


def _turn(written: _Written, parse: Callable[[Sequence[int]], Action]) -> Turn:
    generation = written.generation
    return Turn(
        output_ids=tuple(generation.output_ids),
        output_logprobs=tuple(generation.logprobs),
        finish_reason=generation.finish_reason,
        action=parse(generation.output_ids),
        weight_version=generation.weight_version,
        env_ids=written.env_ids,
        cached_tokens=int(generation.meta.get("cached_tokens", 0)),
        weight_spans=tuple(
            (count, version) for count, version in generation.meta.get("weight_spans", ())
        ),
    )
