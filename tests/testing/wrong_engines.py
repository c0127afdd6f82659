"""Engines with one fault each; run by test_kit_catches.py, and not collected otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import markov_model

from retrain.engine.base import EngineCapabilities, Generation, InferenceEngine, SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.testing import EngineSuite
from retrain.types import FinishReason


class TestRight(EngineSuite):
    def make_engine(self) -> InferenceEngine:
        return ScriptedEngine(markov_model.write, token_delay=0.0002)

    def logprobs_of(
        self, prompt: Sequence[int], output: Sequence[int], temperature: float
    ) -> Sequence[float]:
        stream = [*prompt, *output]
        before = stream[len(prompt) - 1 :]
        return [
            markov_model.logprobs(last, temperature)[token]
            for last, token in zip(before, output, strict=False)
        ]


class Wrong:
    """An engine before the right one; subclasses spoil the question or the answer."""

    capabilities = EngineCapabilities(seeded=True, abortable=True, images=True)

    def __init__(self) -> None:
        self.inner = ScriptedEngine(markov_model.write, token_delay=0.0002)

    def question(self, ids: Sequence[int], params: SamplingParams) -> tuple[Any, SamplingParams]:
        return ids, params

    def seed(self, seed: int) -> int:
        return seed

    def answer(self, answer: Generation, params: SamplingParams) -> Generation:
        return answer

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        ids, asked = self.question(input_ids, params)
        answer = await self.inner.generate(ids, asked, session_id=session_id, seed=self.seed(seed))
        return self.answer(answer, params)

    async def abort(self, session_id: str) -> None:
        await self.inner.abort(session_id)

    async def release(self, session_id: str) -> None:
        await self.inner.release(session_id)


class Suite(TestRight):
    __test__ = False
    wrong: type = Wrong

    def make_engine(self) -> InferenceEngine:
        return self.wrong()


class TestStopTokenDropped(Suite):
    __test__ = True

    class wrong(Wrong):
        def answer(self, answer: Generation, params: SamplingParams) -> Generation:
            if answer.output_ids and answer.output_ids[-1] in params.stop_token_ids:
                cut = answer.output_ids[:-1], answer.logprobs[:-1]
                return replace(answer, output_ids=cut[0], logprobs=cut[1])
            return answer


class TestLogprobsShifted(Suite):
    __test__ = True

    class wrong(Wrong):
        def answer(self, answer: Generation, params: SamplingParams) -> Generation:
            return replace(answer, logprobs=(0.0, *answer.logprobs[:-1]))


class TestMaxTokensIgnored(Suite):
    __test__ = True

    class wrong(Wrong):
        def question(
            self, ids: Sequence[int], params: SamplingParams
        ) -> tuple[Any, SamplingParams]:
            return ids, replace(params, max_tokens=12)


class TestSeedIgnored(Suite):
    __test__ = True

    class wrong(Wrong):
        turns = 0

        def seed(self, seed: int) -> int:
            self.turns += 1
            return self.turns


class TestOneSeedForAll(Suite):
    __test__ = True

    class wrong(Wrong):
        def seed(self, seed: int) -> int:
            return 0


class TestLogprobsUntempered(Suite):
    __test__ = True

    class wrong(Wrong):
        def answer(self, answer: Generation, params: SamplingParams) -> Generation:
            if not params.temperature:
                return answer
            return replace(answer, logprobs=tuple(v * params.temperature for v in answer.logprobs))


class TestOneLogprobMissing(Suite):
    __test__ = True

    class wrong(Wrong):
        def answer(self, answer: Generation, params: SamplingParams) -> Generation:
            return replace(answer, logprobs=answer.logprobs[1:])


class TestProbabilitiesInPlaceOfLogprobs(Suite):
    __test__ = True

    class wrong(Wrong):
        def answer(self, answer: Generation, params: SamplingParams) -> Generation:
            return replace(answer, logprobs=tuple(map(math.exp, answer.logprobs)))


class TestStaleCache(Suite):
    """Goes on from what it kept of a session, whatever the stream is now."""

    __test__ = True

    class wrong(Wrong):
        def __init__(self) -> None:
            super().__init__()
            self.kept: dict[str, int] = {}

        async def generate(self, input_ids: Any, params: Any, **options: Any) -> Generation:
            session = options["session_id"]
            first = self.kept.setdefault(session, input_ids[-1])
            return await super().generate([first], params, **options)

        async def release(self, session_id: str) -> None:
            self.kept.pop(session_id, None)


class TestSessionsMixed(Suite):
    """Continues whatever stream came last."""

    __test__ = True

    class wrong(Wrong):
        last: Any = None

        async def generate(self, input_ids: Any, params: Any, **options: Any) -> Generation:
            import asyncio

            self.last = list(input_ids)
            await asyncio.sleep(0)
            return await super().generate(self.last, params, **options)


class TestAbortIgnored(Suite):
    __test__ = True

    class wrong(Wrong):
        async def abort(self, session_id: str) -> None:
            pass


class TestReleaseOfNothingRaises(Suite):
    __test__ = True

    class wrong(Wrong):
        def __init__(self) -> None:
            super().__init__()
            self.known: set[str] = set()

        async def generate(self, input_ids: Any, params: Any, **options: Any) -> Generation:
            self.known.add(options["session_id"])
            return await super().generate(input_ids, params, **options)

        async def release(self, session_id: str) -> None:
            self.known.remove(session_id)


class TestPromptExtended(Suite):
    __test__ = True

    class wrong(Wrong):
        def question(
            self, ids: Sequence[int], params: SamplingParams
        ) -> tuple[Any, SamplingParams]:
            given: Any = ids
            copied = list(ids)
            given.append(7)
            return copied, params


class TestLengthAlways(Suite):
    """Says LENGTH whatever ended the turn."""

    __test__ = True

    class wrong(Wrong):
        def answer(self, answer: Generation, params: SamplingParams) -> Generation:
            return replace(answer, finish_reason=FinishReason.LENGTH)


class TestNothingSaid(Suite):
    __test__ = True

    class wrong(Wrong):
        def answer(self, answer: Generation, params: SamplingParams) -> Generation:
            return replace(answer, weight_version="", meta={})


class TestNoAbort(Suite):
    """Lacks a method of the protocol."""

    __test__ = True

    class wrong:
        capabilities = EngineCapabilities()

        async def generate(self, *args: Any, **options: Any) -> Generation:
            return Generation((1,), (-1.0,), FinishReason.STOP)


class TestImagesIgnored(Suite):
    __test__ = True

    class wrong(Wrong):
        capabilities = EngineCapabilities(seeded=True, abortable=True)


class TestLogprobsTruncated(Suite):
    """Gives the logprobs of what top-p has left."""

    __test__ = True

    class wrong(Wrong):
        def answer(self, answer: Generation, params: SamplingParams) -> Generation:
            kept = math.log(params.top_p)
            return replace(answer, logprobs=tuple(min(v - kept, 0.0) for v in answer.logprobs))
