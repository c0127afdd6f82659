"""`CannedEngine`: writes the turns of the canned cases, found by the seed of each turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.errors import EngineFailure
from retrain.rendering import DeltaRenderer
from retrain.seeds import EpisodeSeed, derive_seed
from retrain.testing.canned.cases import Case, Said
from retrain.testing.canned.world import LOOKUP
from retrain.types import FinishReason, Message

Encode = Callable[[str], Sequence[int]]
"""Ids of a text without special tokens added; control tokens in it count as such."""

_QUESTION = (Message("user", "Hello."),)
_LOWEST_LOGPROB = -4.0


class CannedEngine:
    """Answers under the seed of a turn; a turn that nobody scripted fails."""

    capabilities = EngineCapabilities(seeded=True, images=True)

    def __init__(self, answers: Mapping[int, Generation]) -> None:
        """Take the answers by the seeds of their turns."""
        self._answers = answers

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Give the scripted turn, cut where it is longer than allowed.

        Raises:
            EngineFailure: No such turn is scripted.
        """
        answer = self._answers.get(seed)
        if answer is None:
            raise EngineFailure("the script has no such turn")
        end = params.max_tokens
        if len(answer.output_ids) <= end:
            return answer
        return Generation(
            answer.output_ids[:end],
            answer.logprobs[:end],
            FinishReason.LENGTH,
            weight_version=answer.weight_version,
        )

    async def abort(self, session_id: str) -> None:
        """Nothing runs."""

    async def release(self, session_id: str) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is held."""


def write_answers(
    cases: Iterable[Case], renderer: DeltaRenderer, encode: Encode, run_seed: int
) -> dict[int, Generation]:
    """Turn what is said in cases into what an engine would have sampled.

    Args:
        cases: The cases; each is a task of its own name.
        renderer: Writes tool calls in the model's format.
        encode: The model's tokenizer.
        run_seed: The run's seed.

    Returns:
        The generations by the seeds of their turns.
    """
    answers: dict[int, Generation] = {}
    for case in cases:
        for member, turns in enumerate(case.members):
            episode = EpisodeSeed(run_seed, "train", case.name, 0, member)
            for number, said in enumerate(turns):
                if not said.fails:
                    seed = episode.turn(number)
                    answers[seed] = generation_of(said, renderer, encode, seed)
    return answers


def generation_of(said: Said, renderer: DeltaRenderer, encode: Encode, seed: int) -> Generation:
    """What an engine samples to say something; its logprobs follow from the seed."""
    ids = _ids(said, renderer, encode)
    logprobs = tuple(
        _LOWEST_LOGPROB * (derive_seed("logprob", seed, position) + 1) / 2**63
        for position in range(len(ids))
    )
    return Generation(tuple(ids), logprobs, said.finish, weight_version=said.version)


def _ids(said: Said, renderer: DeltaRenderer, encode: Encode) -> list[int]:
    if said.calls:
        message = Message("assistant", said.text, tool_calls=said.calls)
        return renderer.turn(_QUESTION, message, (LOOKUP,))
    pieces = list(said.text) if said.odd else [said.text]
    ids = [index for piece in pieces for index in encode(piece)]
    if said.finish is FinishReason.STOP:
        stop = renderer.turn(_QUESTION, Message("assistant", "Hello."))[-1]
        return [*ids, stop]
    return ids[: len(ids) - said.lost]
