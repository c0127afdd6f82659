"""Tests about an engine's seeds, sessions and aborts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from retrain.engine.base import Generation
from retrain.testing.engine_asking import Asking, new_session
from retrain.testing.engine_hooks import EngineHooks, engine_test, well_formed
from retrain.testing.wording import fail, require
from retrain.types import FinishReason

_SEEDS = range(8)
_ABORTS = 5
"""Turns that are begun until an abort falls into one."""


class SessionTests(EngineHooks):
    """Many turns: under one seed, side by side, one behind the other, broken off."""

    @engine_test
    async def test_a_seed_gives_the_same_turn_again(self, asking: Asking) -> None:
        """A seeded engine repeats a turn, and answers the same prompt otherwise under others."""
        _skip_unless(asking.engine.capabilities.seeded, "seeded")
        prompt = self.prompts[0]
        first, second = [
            [(await self._sampled(asking, prompt, seed)).output_ids for seed in _SEEDS]
            for _ in "12"
        ]
        require(
            first == second,
            "an engine that says that it is seeded writes other turns under the same seeds",
            expected=first,
            came=second,
        )
        require(
            len(set(first)) > 1,
            f"{len(_SEEDS)} seeds give one and the same turn at temperature 1",
            expected="turns that differ",
            came=first[0],
        )

    @engine_test
    async def test_a_seeded_turn_does_not_depend_on_its_neighbours(self, asking: Asking) -> None:
        """The same turn comes whatever runs beside it."""
        _skip_unless(asking.engine.capabilities.seeded, "seeded")
        asked = [(self.prompts[seed % len(self.prompts)], seed) for seed in _SEEDS]
        alone = [(await self._sampled(asking, *turn)).output_ids for turn in asked]
        together = await asyncio.gather(*(self._sampled(asking, *turn) for turn in asked))
        came = [answer.output_ids for answer in together]
        require(alone == came, "turns differ side by side", expected=alone, came=came)

    @engine_test
    async def test_sessions_do_not_mix(self, asking: Asking) -> None:
        """Episodes that take turns write what each writes alone."""
        alone = [await self._episode(asking, prompt) for prompt in self.prompts]
        together = await asyncio.gather(*(self._episode(asking, p) for p in self.prompts))
        require(alone == [*together], "episodes differ side by side", expected=alone, came=together)

    @engine_test
    async def test_a_session_is_continued_exactly(self, asking: Asking) -> None:
        """What an engine keeps of a session's earlier turns changes nothing."""
        session, prompt = new_session(), list(self.prompts[0])
        for added in self.prompts:
            kept = await asking.turn(prompt, max_tokens=self.max_tokens, session=session)
            new = await asking.turn(prompt, max_tokens=self.max_tokens)
            self._same(kept, new, "a later turn of a session", "the same stream in a new one")
            prompt = [*prompt, *kept.output_ids, *added]
        await asking.engine.release(session)

    @engine_test
    async def test_a_rewritten_history_is_read_again(self, asking: Asking) -> None:
        """A stream that does not begin as the session's earlier one is taken as it is."""
        session = new_session()
        await asking.turn(self.prompts[0], max_tokens=self.max_tokens, session=session)
        for prompt in (self.prompts[1], self.prompts[0][:2]):
            kept = await asking.turn(prompt, max_tokens=self.max_tokens, session=session)
            new = await asking.turn(prompt, max_tokens=self.max_tokens)
            self._same(kept, new, "a rewritten stream", "the same stream in a new session")

    @engine_test
    async def test_release_forgets_a_session(self, asking: Asking) -> None:
        """Releasing twice, or what never was, is harmless, and a session may begin anew."""
        session, prompt = new_session(), self.prompts[0]
        before = await asking.turn(prompt, max_tokens=self.max_tokens, session=session)
        for name in (session, session, new_session()):
            await asking.engine.release(name)
        after = await asking.turn(prompt, max_tokens=self.max_tokens, session=session)
        self._same(after, before, "a turn after release", "the turn before it")

    @engine_test
    async def test_abort_ends_a_turn(self, asking: Asking) -> None:
        """An aborted turn returns soon with what it has; it can be continued from there."""
        _skip_unless(asking.engine.capabilities.abortable, "abortable")
        for _ in range(_ABORTS):
            answer = await self._aborted(asking)
            if answer.finish_reason is not FinishReason.ABORT:
                continue
            if answer.output_ids:
                well_formed(answer)
            stream = [*self.prompts[0], *answer.output_ids]
            well_formed(await asking.turn(stream, max_tokens=2))
            return
        fail(
            f"an engine that says that it is abortable ended none of {_ABORTS} turns",
            expected=f"finish reason abort before {self.abort_tokens} tokens are written (set "
            "abort_tokens higher if they are written at once)",
            came=f"{answer.finish_reason} after {len(answer.output_ids)} tokens",
        )

    @engine_test
    async def test_abort_of_nothing_is_harmless(self, asking: Asking) -> None:
        """An abort may come too late, or for a session that never was."""
        session = new_session()
        await asking.engine.abort(session)
        answer = await asking.turn(self.prompts[0], max_tokens=2, session=session)
        await asking.engine.abort(session)
        well_formed(answer)
        well_formed(await asking.turn(self.prompts[0], max_tokens=2, session=session))

    async def _sampled(self, asking: Asking, prompt: Sequence[int], seed: int) -> Generation:
        return await asking.turn(prompt, max_tokens=self.max_tokens, temperature=1.0, seed=seed)

    async def _episode(self, asking: Asking, prompt: Sequence[int]) -> tuple[int, ...]:
        session, stream = new_session(), list(prompt)
        for _ in range(3):
            answer = await asking.turn(stream, max_tokens=self.max_tokens, session=session)
            stream += [*answer.output_ids, *prompt]
        await asking.engine.release(session)
        return tuple(stream)

    async def _aborted(self, asking: Asking) -> Generation:
        session = new_session()
        turn = asyncio.ensure_future(
            asking.turn(
                self.prompts[0], max_tokens=self.abort_tokens, temperature=1.0, session=session
            )
        )
        while not turn.done():
            await asyncio.sleep(0.001)
            await asking.engine.abort(session)
        await asking.engine.release(session)
        return await turn

    def _same(self, one: Generation, other: Generation, what: str, than: str) -> None:
        __tracebackhide__ = True
        pairs = zip(one.logprobs, other.logprobs, strict=False)
        require(
            one.output_ids == other.output_ids
            and all(abs(a - b) <= self.tolerance for a, b in pairs),
            f"{what} differs from {than}",
            expected=f"{other.output_ids}, logprobs {other.logprobs}",
            came=f"{one.output_ids}, logprobs {one.logprobs}",
        )


def _skip_unless(able: bool, what: str) -> None:
    if not able:
        pytest.skip(f"capabilities.{what} is False")
