"""`RewardSuite`: can a reward be trusted with any episode, in any order?"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from retrain.errors import RetrainError
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import ComponentKind, RewardComponent, Scored
from retrain.runtime import EventLoopThread
from retrain.testing.canned.episodes import EPISODES, canned_episode
from retrain.testing.wording import fail, require
from retrain.types import Trajectory

Episodes = Callable[[], Mapping[str, Trajectory]]

NAMES = tuple(EPISODES)


class RewardSuite:
    """Scores canned episodes: right and wrong answers, tool calls, nonsense, cut turns.

    Subclass it and define `make_reward`: a function of the kind that `reward_setup` takes, or a
    `RewardCalculator` for several of them together.

    Attributes:
        label: The expected answer of every episode's task.
        right: A text that earns more than `wrong` does; "" leaves that untested.
        wrong: A text that earns less.
        params: Keyword arguments of the function.
        needs_label: Whether a task without a label is a mistake, which must not become a reward.
        longest_block: Seconds for which a call may block the event loop.
    """

    label: ClassVar[Any] = "4"
    right: ClassVar[str] = ""
    wrong: ClassVar[str] = "I do not know."
    params: ClassVar[Mapping[str, Any]] = {}
    needs_label: ClassVar[bool] = False
    longest_block: ClassVar[float] = 0.5

    def make_reward(self) -> Callable[..., Any] | RewardCalculator:
        """The reward function, `(trajectory)`, `(trajectories)` or `(turn, trajectory)`."""
        raise NotImplementedError(f"{type(self).__name__} must define make_reward(self)")

    @pytest.fixture
    def calculator(self) -> RewardCalculator:
        """Calls the function as a run does."""
        reward = self.make_reward()
        if isinstance(reward, RewardCalculator):
            return reward
        first = next(iter(inspect.signature(reward).parameters), "")
        kind = ComponentKind.STEP if first == "turn" else ComponentKind.ROLLOUT
        component = RewardComponent("tested", kind, reward, params=self.params)
        return RewardCalculator([component])

    @pytest.fixture
    def episodes(self) -> Episodes:
        """Makes the canned episodes; override it for tasks with metadata of another kind."""
        return lambda: {name: canned_episode(name, label=self.label) for name in NAMES}

    @pytest.mark.parametrize("name", NAMES)
    def test_every_episode_gets_a_finite_number(
        self, calculator: RewardCalculator, episodes: Episodes, name: str
    ) -> None:
        """Whatever the model wrote: a finite number, or None where the reward does not apply."""
        score = _scores(calculator, [episodes()[name]])[0]
        if score.error is not None:
            fail(
                f"the episode {name!r} gets no reward",
                expected="a finite number, or None",
                came=score.error.reason,
            )
        total = 0.0 if score.total is None else score.total
        require(math.isfinite(total), "the reward is not finite", expected="finite", came=total)

    def test_order_does_not_count(self, calculator: RewardCalculator, episodes: Episodes) -> None:
        """An episode's reward hangs neither on its place nor on what was scored before it."""
        given = list(episodes().values())
        forwards = _totals(calculator, given)
        backwards = _totals(calculator, given[::-1])[::-1]
        _same(forwards, backwards, "in another order")

    def test_the_same_episode_gets_the_same_reward(
        self, calculator: RewardCalculator, episodes: Episodes
    ) -> None:
        """Scoring twice gives the same rewards."""
        given = list(episodes().values())
        _same(_totals(calculator, given), _totals(calculator, given), "the second time")

    def test_neighbours_do_not_count(
        self, calculator: RewardCalculator, episodes: Episodes
    ) -> None:
        """An episode alone gets what it gets among others."""
        given = list(episodes().values())
        alone = [_totals(calculator, [episode])[0] for episode in given]
        _same(_totals(calculator, given), alone, "alone")

    def test_a_right_answer_earns_more(
        self, calculator: RewardCalculator, episodes: Episodes
    ) -> None:
        """`right` earns more than `wrong`."""
        if not self.right:
            pytest.skip('right is "": no text is said to be a right answer')
        right, wrong = (
            canned_episode("answer", label=self.label, text=text)
            for text in (self.right, self.wrong)
        )
        more, less = _totals(calculator, [right, wrong])
        require(
            more is not None and less is not None and more > less,
            f"{self.right!r} does not earn more than {self.wrong!r}",
            expected="more for the right answer",
            came=f"{more} and {less}",
        )

    def test_a_missing_label_is_no_reward(
        self, calculator: RewardCalculator, episodes: Episodes
    ) -> None:
        """A mistake in the data is an error, never a reward of 0."""
        if not self.needs_label:
            pytest.skip("needs_label is False")
        episode = episodes()["answer"]
        bare = replace(episode, task=replace(episode.task, label=None))
        score = _scores(calculator, [bare])[0]
        require(
            score.error is not None and score.total is None,
            "a task without a label got a reward",
            expected="an error",
            came=score.total,
        )

    def test_the_event_loop_stays_free(
        self, calculator: RewardCalculator, episodes: Episodes
    ) -> None:
        """No call keeps the event loop, on which all episodes wait."""
        told: list[str] = []
        with EventLoopThread(patience=self.longest_block, tell=told.append) as loop:
            for episode in episodes().values():
                with suppress(RetrainError):
                    loop.run(calculator.score([episode]))
        require(not told, "the event loop was blocked", expected="it answers", came="\n".join(told))


def _scores(calculator: RewardCalculator, episodes: Sequence[Trajectory]) -> tuple[Scored, ...]:
    return asyncio.run(calculator.score(episodes))


def _totals(calculator: RewardCalculator, episodes: Sequence[Trajectory]) -> list[float | None]:
    return [score.total for score in _scores(calculator, episodes)]


def _same(one: Sequence[float | None], other: Sequence[float | None], when: str) -> None:
    __tracebackhide__ = True
    for name, expected, came in zip(NAMES, one, other, strict=False):
        what = f"the episode {name!r} gets another reward {when}"
        require(expected == came, what, expected=expected, came=came)
