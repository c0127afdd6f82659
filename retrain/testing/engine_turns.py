"""Tests about one turn of an engine."""

from __future__ import annotations

import pytest

from retrain.engine.base import EngineCapabilities, InferenceEngine, SamplingParams
from retrain.errors import EngineFailure
from retrain.testing.engine_asking import Asking, new_session
from retrain.testing.engine_hooks import EngineHooks, engine_test, well_formed
from retrain.testing.wording import fail, raised, require
from retrain.types import FinishReason


class TurnTests(EngineHooks):
    """One turn: its tokens, its logprobs, its end."""

    @engine_test
    async def test_it_is_an_engine(self, asking: Asking) -> None:
        """It has the methods of `InferenceEngine` and says what it can do."""
        engine = asking.engine
        kind = type(engine).__name__
        require(
            isinstance(engine, InferenceEngine),
            f"{kind} lacks methods of an engine",
            expected="capabilities, generate, abort and release",
            came=[name for name in dir(engine) if not name.startswith("_")],
        )
        require(
            isinstance(engine.capabilities, EngineCapabilities),
            "capabilities is of another type",
            expected="EngineCapabilities",
            came=type(engine.capabilities).__name__,
        )

    @engine_test
    async def test_every_token_has_its_logprob(self, asking: Asking) -> None:
        """As many logprobs as tokens; all of them finite and at most 0."""
        for prompt in self.prompts:
            answer = await asking.turn(prompt, max_tokens=self.max_tokens, temperature=1.0)
            well_formed(answer)

    @pytest.mark.parametrize("most", [1, 2, 5])
    @engine_test
    async def test_max_tokens_bounds_a_turn(self, asking: Asking, most: int) -> None:
        """A turn has at most `max_tokens` tokens, and LENGTH says that it reached them."""
        for prompt in self.prompts:
            answer = await asking.turn(prompt, max_tokens=most, temperature=1.0)
            written = len(answer.output_ids)
            require(
                1 <= written <= most,
                "the turn has another length than asked for",
                expected=f"1 to {most} tokens",
                came=f"{written} tokens",
            )
            require(
                answer.finish_reason is not FinishReason.LENGTH or written == most,
                "finish reason LENGTH without reaching max_tokens",
                expected=f"{most} tokens",
                came=f"{written} tokens",
            )

    @engine_test
    async def test_the_stop_token_is_kept(self, asking: Asking) -> None:
        """A turn ends right behind the first stop token, which is the last of its ids."""
        for prompt in self.prompts:
            free = (await asking.turn(prompt, max_tokens=self.max_tokens)).output_ids
            last = max(free.index(token) for token in free)
            stops = frozenset({free[last]})
            answer = await asking.turn(prompt, max_tokens=self.max_tokens, stops=stops)
            require(
                answer.output_ids == free[: last + 1],
                f"a turn with the stop token {free[last]} does not end with it",
                expected=free[: last + 1],
                came=answer.output_ids,
            )
            require(
                answer.finish_reason is FinishReason.STOP,
                "a turn that a stop token ended has another finish reason",
                expected="stop",
                came=answer.finish_reason,
            )

    @engine_test
    async def test_logprobs_belong_to_their_tokens(self, asking: Asking) -> None:
        """The logprob of each token is the one that it has as the first token of a turn."""
        prompt = self.prompts[0]
        whole = await asking.turn(prompt, max_tokens=self.max_tokens)
        for at, (token, logprob) in enumerate(zip(whole.output_ids, whole.logprobs, strict=True)):
            alone = await asking.turn([*prompt, *whole.output_ids[:at]], max_tokens=1)
            require(
                alone.output_ids == (token,) and abs(alone.logprobs[0] - logprob) <= self.tolerance,
                f"token {at} of a greedy turn is another one, or has another logprob, than "
                "when it is written alone",
                expected=f"token {alone.output_ids}, logprob {alone.logprobs}",
                came=f"token {token}, logprob {logprob}",
            )

    @engine_test
    async def test_logprobs_are_tempered_and_not_truncated(self, asking: Asking) -> None:
        """Logprobs are those of the logits over the temperature, before top-p cuts anything."""
        for temperature, top_p in ((1.0, 1.0), (0.7, 1.0), (1.0, 0.5)):
            answer = await asking.turn(
                self.prompts[0],
                max_tokens=self.max_tokens,
                temperature=temperature,
                top_p=top_p,
            )
            right = self.logprobs_of(self.prompts[0], answer.output_ids, temperature)
            if right is None:
                pytest.skip("logprobs_of is not defined: nobody can tell the right ones")
            pairs = zip(answer.logprobs, right, strict=True)
            apart = max(abs(one - other) for one, other in pairs)
            require(
                apart <= self.tolerance,
                f"at temperature {temperature:g} and top_p {top_p:g} a logprob is {apart:.3g} "
                "nats away from the right one",
                expected=list(right),
                came=list(answer.logprobs),
            )

    @engine_test
    async def test_what_it_says_about_a_turn(self, asking: Asking) -> None:
        """Every turn names its weights and how much of its prompt was not computed again."""
        answer = await asking.turn(self.prompts[0], max_tokens=2)
        version, cached = answer.weight_version, answer.meta.get("cached_tokens")
        require(
            isinstance(version, str) and version != "",
            "weight_version names no weights",
            expected="a text that is not empty",
            came=version,
        )
        require(
            isinstance(cached, int) and 0 <= cached <= len(self.prompts[0]),
            'meta["cached_tokens"] is no number of prompt tokens',
            expected=f"a whole number from 0 to {len(self.prompts[0])}",
            came=cached,
        )

    @engine_test
    async def test_images_are_not_ignored(self, asking: Asking) -> None:
        """An engine that takes no images says so, rather than answer without having seen them."""
        if asking.engine.capabilities.images:
            pytest.skip("capabilities.images is True")
        try:
            answer = await asking.turn(self.prompts[0], max_tokens=2, images=["a.png"])
        except EngineFailure:
            return
        except Exception as error:  # noqa: BLE001 - every other exception is the finding
            raised("images failed in another way", error, expected="EngineFailure")
        fail("images were ignored", expected="EngineFailure", came=answer)

    @engine_test
    async def test_the_prompt_is_left_as_it_was(self, asking: Asking) -> None:
        """The list of ids belongs to the caller."""
        given = list(self.prompts[0])
        session = new_session()
        params = SamplingParams(2, 0.0)
        await asking.engine.generate(given, params, session_id=session, seed=0)
        await asking.engine.release(session)
        require(
            given == list(self.prompts[0]),
            "generate changed the list of prompt ids",
            expected=list(self.prompts[0]),
            came=given,
        )
