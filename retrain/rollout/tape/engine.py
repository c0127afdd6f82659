"""`TapeEngine`: answers as the recorded engine did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.errors import EngineFailure
from retrain.rollout.tape.format import TapeAnswer, TapeGroup


class OffTape(EngineFailure):
    """A turn that the tape does not hold: something before it departs from the recording."""


class TapeEngine:
    """Plays back the answers of recorded groups, each under the seed of its turn.

    It answers a turn whose prompt has changed too, as long as the recorded answer still fits in it:
    `departures` then says where the streams part. A turn that was never asked, and one that has no
    room for the recorded answer, fails as `OffTape`.
    """

    def __init__(self, groups: Iterable[TapeGroup]) -> None:
        """Take the groups to play back."""
        self._answers: dict[int, TapeAnswer] = {}
        for recorded in groups:
            self._answers.update(recorded.answers)

    @property
    def capabilities(self) -> EngineCapabilities:
        """The same seed gives the same answer; nothing runs that could be aborted."""
        return EngineCapabilities(seeded=True)

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Give the recorded answer; see `InferenceEngine.generate`.

        Raises:
            OffTape: There is none, or it has no room here.
            EngineFailure: The recorded engine failed here, for the reason that it gave then.
        """
        answer = self._answers.get(seed)
        if answer is None:
            raise OffTape(
                f"the tape holds no answer for this turn ({len(input_ids)} tokens so far): the "
                "episode has departed from the recording, or its seeds have"
            )
        if answer.generation is None:
            raise EngineFailure(answer.failure)
        written = len(answer.generation.output_ids)
        if written > params.max_tokens:
            raise OffTape(
                f"the recorded answer has {written} tokens, and {params.max_tokens} are allowed "
                f"here ({answer.asked} tokens stood before it then, {len(input_ids)} now)"
            )
        return answer.generation

    async def abort(self, session_id: str) -> None:
        """Nothing runs."""

    async def release(self, session_id: str) -> None:
        """Nothing is kept."""
