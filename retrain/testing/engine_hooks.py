"""What the author of an engine says about it, and how its tests are run."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, TypeVar

import pytest

from retrain.engine.base import Generation, InferenceEngine
from retrain.testing.engine_asking import Asking, MakeEngine, ask, close_whatever
from retrain.testing.wording import require

T = TypeVar("T", bound="EngineHooks")

_ALMOST_ZERO = 1e-6


class EngineHooks:
    """What `EngineSuite` needs to know of an engine.

    Attributes:
        prompts: Token ids to continue.
        max_tokens: Most tokens of a turn, in most tests.
        abort_tokens: Tokens of a turn that is long enough for an abort to fall into it.
        tolerance: Nats by which two computations of one logprob may differ.
        patience: Seconds after which a turn counts as hung.
    """

    prompts: ClassVar[Sequence[Sequence[int]]] = ((5, 6, 7, 8, 9), (10, 11, 12), (20, 5, 30, 6))
    max_tokens: ClassVar[int] = 8
    abort_tokens: ClassVar[int] = 100
    tolerance: ClassVar[float] = 1e-3
    patience: ClassVar[float] = 60.0

    def make_engine(self) -> InferenceEngine:
        """Make the engine; its `start` is awaited where it has one."""
        raise NotImplementedError(f"{type(self).__name__} must define make_engine(self)")

    async def close_engine(self, engine: InferenceEngine) -> None:
        """Close it; by its `aclose` or `close`, where it has one."""
        await close_whatever(engine)

    def logprobs_of(
        self, prompt: Sequence[int], output: Sequence[int], temperature: float
    ) -> Sequence[float] | None:
        """The right logprobs of `output`, where somebody can tell: tempered, not truncated.

        Args:
            prompt: The stream before it.
            output: Token ids.
            temperature: What the logits are divided by; above 0.
        """
        return None

    @pytest.fixture
    def fresh_engine(self) -> MakeEngine:
        """`make_engine`; override it where an engine needs other fixtures."""
        return self.make_engine


def engine_test(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Run an asynchronous test with an `Asking` in an event loop of its own.

    pytest sees a plain function that takes the fixture `fresh_engine` in place of `asking`.
    """

    @functools.wraps(test)
    def run(self: EngineHooks, fresh_engine: MakeEngine, **parameters: Any) -> None:
        __tracebackhide__ = True

        async def check(asking: Asking) -> None:
            __tracebackhide__ = True
            await test(self, asking, **parameters)

        ask(fresh_engine, self.close_engine, self.patience, check)

    own, _, *others = inspect.signature(test).parameters.values()
    engine = own.replace(name="fresh_engine", annotation="MakeEngine")
    run.__signature__ = inspect.Signature([own, engine, *others])  # type: ignore[attr-defined]
    return run


def well_formed(answer: Generation) -> None:
    """Fail unless a turn is one."""
    __tracebackhide__ = True
    ids, logprobs = answer.output_ids, answer.logprobs
    require(
        bool(ids) and len(ids) == len(logprobs),
        "a turn has another number of logprobs than of tokens, or no token at all",
        expected="one logprob for each token, and at least one token",
        came=f"{len(ids)} tokens and {len(logprobs)} logprobs",
    )
    wrong = [value for value in logprobs if not math.isfinite(value) or value > _ALMOST_ZERO]
    require(not wrong, "these are no logprobs", expected="finite, at most 0", came=wrong)
