"""Components, their sum, and what happens where one fails."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from reward_episodes import make_episode

from retrain.errors import Boundary, ConfigError, RewardFailure
from retrain.reward import ComponentKind, OnFailure, RewardCalculator, RewardComponent, Scored
from retrain.sample import Status
from retrain.types import Trajectory, Turn


def rollout(function: Callable[..., Any], name: str = "r", **options: Any) -> RewardComponent:
    return RewardComponent(name, ComponentKind.ROLLOUT, function, **options)


def step(function: Callable[..., Any], name: str = "s", **options: Any) -> RewardComponent:
    return RewardComponent(name, ComponentKind.STEP, function, **options)


ENVIRONMENT = RewardComponent("environment", ComponentKind.ENVIRONMENT)


async def score(trajectory: Trajectory, *components: RewardComponent) -> Scored:
    (scored,) = await RewardCalculator(components).score([trajectory])
    return scored


async def test_the_total_is_the_weighted_sum_and_raw_values_stay_visible() -> None:
    trajectory = make_episode("a", "bb", rewards=[0.25, 0.5])

    scored = await score(
        trajectory,
        RewardComponent("environment", ComponentKind.ENVIRONMENT, weight=2.0),
        step(lambda turn, trajectory: len(turn.action.text), weight=0.5),
        rollout(lambda trajectory, bonus: bonus, params={"bonus": 10}, weight=-1.0),
    )

    assert scored.components == {"environment": 0.75, "s": 3.0, "r": 10.0}
    assert scored.total == 2 * 0.75 + 0.5 * 3 - 10
    assert (scored.error, scored.dropped) == (None, False)


async def a_coroutine(trajectory: Trajectory) -> float:
    await asyncio.sleep(0)
    return 2.0


class AnObject:
    async def __call__(self, trajectory: Trajectory) -> float:
        return 2.0


@pytest.mark.parametrize(
    "function",
    [
        lambda trajectory: 2,
        lambda trajectory: np.float32(2.0),
        lambda trajectory: Fraction(2),
        lambda trajectory: a_coroutine(trajectory),
        a_coroutine,
        functools.partial(a_coroutine),
        AnObject(),
    ],
)
async def test_a_function_may_be_of_any_kind(function: Callable[..., Any]) -> None:
    assert (await score(make_episode("x"), rollout(function))).total == 2.0


async def test_asynchronous_step_functions_are_summed_over_turns() -> None:
    async def length(turn: Turn, trajectory: Trajectory) -> float:
        return len(turn.action.text)

    assert (await score(make_episode("a", "bb"), step(length))).total == 3.0


async def test_a_batch_function_gets_all_episodes_at_once() -> None:
    sizes = []

    def rank(trajectories: list[Trajectory], scale: float) -> list[float | None]:
        sizes.append(len(trajectories))
        return [scale * len(t.response_text) or None for t in trajectories]

    episodes = [make_episode("x" * i) for i in range(3)]
    episodes.insert(1, make_episode("x", status=Status.FAILED))
    calculator = RewardCalculator([rollout(rank, params={"scale": 2.0})])

    assert [s.total for s in await calculator.score(episodes)] == [None, None, 2.0, 4.0]
    assert sizes == [3]


async def test_none_means_that_a_component_does_not_apply() -> None:
    nothing = rollout(lambda trajectory: None, "nothing")
    trajectory = make_episode("x", rewards=[0.5])

    both = await score(trajectory, ENVIRONMENT, nothing)
    alone = await score(trajectory, nothing)

    assert both == Scored(0.5, {"environment": 0.5})
    assert alone == Scored(None, {})


def raises(trajectory: Trajectory) -> float:
    raise KeyError("no such thing")


async def raises_later(trajectory: Trajectory) -> float:
    raise KeyError("no such thing")


def hangs(trajectory: Trajectory) -> float:
    time.sleep(0.5)
    return 1.0


async def hangs_later(trajectory: Trajectory) -> float:
    await asyncio.sleep(20)
    return 1.0


FAILURES = [
    (rollout(raises), "reward r: KeyError: 'no such thing'"),
    (rollout(raises_later), "reward r: KeyError: 'no such thing'"),
    (rollout(hangs, timeout=0.05), "reward r: no answer within 0.05 s"),
    (rollout(hangs_later, timeout=0.05), "reward r: no answer within 0.05 s"),
    (rollout(lambda trajectory: float("nan")), "reward r returned nan; expected a finite number"),
    (rollout(lambda trajectory: float("-inf")), "reward r returned -inf"),
    (rollout(lambda trajectory: "1"), "reward r returned str '1'; expected a number"),
    (rollout(lambda trajectories: [1.0, 2.0]), "reward r returned 2 values for 1 episodes"),
    (rollout(lambda trajectories: 1.0), "reward r returned float 1.0 instead of a list"),
    (rollout(lambda trajectories: ["x"]), "reward r returned str 'x'"),
    (step(lambda turn, trajectory: None), "reward s returned NoneType None"),
    (step(lambda turn, trajectory: next(iter(()))), "reward s: RuntimeError: StopIteration"),
    (rollout(lambda trajectory: 1.0, verifiers=(raises,)), "verifier raises: KeyError"),
    (rollout(lambda trajectory: 1.0, verifiers=(lambda t: 1,)), "returned 1; expected True"),
]


@pytest.mark.parametrize(("component", "reason"), FAILURES, ids=[reason for _, reason in FAILURES])
async def test_a_failure_drops_the_episode_and_is_kept(
    component: RewardComponent, reason: str
) -> None:
    scored = await score(make_episode("x", rewards=[0.5]), ENVIRONMENT, component)

    assert (scored.total, scored.dropped) == (None, True)
    assert scored.components == {"environment": 0.5}
    assert scored.error is not None
    assert scored.error.boundary is Boundary.REWARD
    assert reason in scored.error.reason


async def test_a_value_replaces_what_failed_and_the_failure_is_kept() -> None:
    component = rollout(raises, on_failure=OnFailure.VALUE, value=-1.0, weight=2.0)

    scored = await score(make_episode("x", rewards=[0.5]), ENVIRONMENT, component)

    assert scored.total == -1.5
    assert scored.components == {"environment": 0.5, "r": -1.0}
    assert not scored.dropped
    assert scored.error is not None


async def test_raise_lets_the_first_failure_out() -> None:
    component = rollout(raises, on_failure=OnFailure.RAISE)

    with pytest.raises(RewardFailure, match="no such thing"):
        await score(make_episode("x"), rollout(raises_later, "other"), component)


async def test_one_failure_leaves_the_other_episodes_alone() -> None:
    def picky(trajectory: Trajectory) -> float:
        return 1.0 / len(trajectory.response_text)

    episodes = [make_episode("x"), make_episode(""), make_episode("xx")]

    scores = await RewardCalculator([rollout(picky)]).score(episodes)

    assert [s.total for s in scores] == [1.0, None, 0.5]


async def test_a_wrong_configuration_is_no_failure_of_an_episode() -> None:
    def unconfigured(trajectory: Trajectory) -> float:
        raise ConfigError("set the judge's address")

    with pytest.raises(ConfigError, match="judge"):
        await score(make_episode("x"), rollout(unconfigured))


async def test_a_verifier_that_does_not_hold_puts_the_penalty_in_place() -> None:
    called = []

    def reward(trajectory: Trajectory) -> float:
        called.append(trajectory.response_text)
        return 1.0

    async def has_text(trajectory: Trajectory) -> bool:
        return bool(trajectory.response_text)

    component = rollout(reward, verifiers=(has_text,), verifier_penalty=-0.5, weight=2.0)
    scores = await RewardCalculator([component]).score([make_episode("x"), make_episode("")])

    assert [(s.total, s.components["r"]) for s in scores] == [(2.0, 1.0), (-1.0, -0.5)]
    assert called == ["x"]


@pytest.mark.parametrize("status", [Status.FAILED, Status.ABORTED, Status.PENDING])
async def test_an_episode_that_did_not_end_is_not_scored(status: Status) -> None:
    trajectory = make_episode("x", rewards=[1.0], status=status)

    scored = await score(trajectory, ENVIRONMENT, rollout(raises))

    assert scored == Scored(None, {}, trajectory.error, dropped=False)


async def test_a_truncated_episode_is_scored() -> None:
    scored = await score(make_episode("x", rewards=[1.0], status=Status.TRUNCATED), ENVIRONMENT)

    assert scored.total == 1.0


async def test_no_episodes_give_no_scores() -> None:
    assert await RewardCalculator([ENVIRONMENT, rollout(raises)]).score([]) == ()


async def test_a_sum_that_overflows_drops_the_episode() -> None:
    scored = await score(make_episode("x"), rollout(lambda trajectory: 1e300, weight=1e300))

    assert (scored.total, scored.dropped) == (None, True)


async def test_synchronous_functions_run_side_by_side_off_the_event_loop() -> None:
    threads = set()

    def slow(trajectory: Trajectory) -> float:
        threads.add(threading.current_thread())
        time.sleep(0.1)
        return 1.0

    began = time.monotonic()
    scores = await RewardCalculator([rollout(slow)]).score([make_episode("x")] * 32)

    assert all(s.total == 1.0 for s in scores)
    assert time.monotonic() - began < 2.0
    assert threading.main_thread() not in threads


async def test_no_more_functions_run_at_once_than_allowed() -> None:
    running, most = 0, 0

    async def count(trajectory: Trajectory) -> float:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return 0.0

    await RewardCalculator([rollout(count)], concurrency=3).score([make_episode("x")] * 9)

    assert most == 3


def test_components_must_be_sound() -> None:
    with pytest.raises(ValueError, match="different names"):
        RewardCalculator([ENVIRONMENT, ENVIRONMENT])
    with pytest.raises(ValueError, match="a function is needed"):
        RewardComponent("r", ComponentKind.ROLLOUT)
    with pytest.raises(ValueError, match="finite"):
        rollout(raises, weight=float("nan"))
