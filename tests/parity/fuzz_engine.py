"""The model of the fuzz: any tokens, by the seed of the turn alone, and a log of what it was asked.

Two engines made of the same options answer alike, so each backend may play the episodes itself.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

from fuzz_texts import odd_text

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.engine.factory import EngineContext
from retrain.errors import EngineFailure
from retrain.types import FinishReason

_CALLS = {
    "hermes": ('<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>', "\n"),
    "llama3": ('{{"name": "{}", "parameters": {}}}', "; "),
}
_BROKEN = (
    "<tool_call>{",
    '{"name": "lookup", "parameters": {"word": ',
    "<tool_call>[]</tool_call>",
)


class FuzzEngine:
    """Writes random ids, odd tokenizations, tool calls good and bad; fails, aborts and is cut.

    Attributes:
        log: Seed of a turn -> what was asked and what was answered.
    """

    capabilities = EngineCapabilities(seeded=True)

    def __init__(self, encode: Callable[[str], Sequence[int]], vocabulary: int, calls: str) -> None:
        """Make a model.

        Args:
            encode: The tokenizer.
            vocabulary: Ids are below it.
            calls: The format of tool calls; "" for none.
        """
        self._encode = encode
        self._vocabulary = vocabulary
        self._calls = calls
        self.log: dict[int, tuple[tuple[int, ...], Generation]] = {}

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        rng = random.Random(seed)
        if rng.random() < 0.01:
            raise EngineFailure("the server answered 500")
        ids, reason = _cut(self._turn(rng, params), params)
        if rng.random() < 0.03:
            ids, reason = ids[: rng.randint(0, len(ids))], FinishReason.ABORT
        generation = Generation(tuple(ids), _logprobs(rng, len(ids)), reason)
        self.log[seed] = tuple(input_ids), generation
        return generation

    async def abort(self, session_id: str) -> None:
        """Nothing runs."""

    async def release(self, session_id: str) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is held."""

    def _turn(self, rng: random.Random, params: SamplingParams) -> list[int]:
        kind = rng.random()
        if kind < 0.2:
            ids = [rng.randrange(self._vocabulary) for _ in range(rng.randint(1, 12))]
        elif kind < 0.6 and self._calls:
            ids = self._odd_ids(self._call(rng), rng)
        else:
            thought = f"<think>\n{odd_text(rng)}\n</think>\n\n" if rng.random() < 0.2 else ""
            ids = self._odd_ids(thought + odd_text(rng), rng)
        if rng.random() < 0.85 or not ids:
            ids.append(rng.choice(sorted(params.stop_token_ids)))
        return ids

    def _call(self, rng: random.Random) -> str:
        form, joint = _CALLS[self._calls]
        if rng.random() < 0.15:
            return rng.choice(_BROKEN)
        names = rng.choices(("lookup", "count", "nothing"), weights=(5, 4, 1), k=rng.randint(1, 3))
        words = ({"word": odd_text(rng, forged=rng.random() < 0.2)} for _ in names)
        ascii_only = rng.random() < 0.5
        written = (json.dumps(word, ensure_ascii=ascii_only) for word in words)
        calls = joint.join(form.format(*pair) for pair in zip(names, written, strict=True))
        return calls if rng.random() < 0.7 else f"{odd_text(rng, forged=False)}\n{calls}"

    def _odd_ids(self, text: str, rng: random.Random) -> list[int]:
        """Ids of `text`, at times not those that its tokenizer would have chosen.

        It is cut at a random place, and one in ten ends in the middle of a character or a word.
        """
        cut = rng.randint(0, len(text))
        ids = [i for part in (text[:cut], text[cut:]) for i in self._encode(part)]
        return ids[:-1] if rng.random() < 0.1 else ids


def _cut(ids: list[int], params: SamplingParams) -> tuple[list[int], FinishReason]:
    """End at the first stop token, or at the bound."""
    stops = (n for n, token in enumerate(ids, 1) if token in params.stop_token_ids)
    end = next(stops, len(ids))
    if end > params.max_tokens:
        return ids[: params.max_tokens], FinishReason.LENGTH
    return ids[:end], FinishReason.STOP


def _logprobs(rng: random.Random, count: int) -> tuple[float, ...]:
    """Ordinary ones, and the ends of what a float32 holds; 1e-7 above 0, as rounding gives."""
    extremes = (0.0, -0.0, -1e-45, -1e-8, 1e-7, -1 / 3, -60.0, -0.1)
    odd = rng.random() < 0.3
    return tuple(rng.choice(extremes) if odd else -rng.expovariate(1.0) for _ in range(count))


def build_fuzz(context: EngineContext, *, calls: str) -> FuzzEngine:
    """Make the engine that a configuration names.

    Args:
        context: Gives the tokenizer.
        calls: The format of tool calls; "" for none.
    """
    assert context.encode is not None and context.vocab_size is not None
    return FuzzEngine(context.encode, context.vocab_size, calls)
