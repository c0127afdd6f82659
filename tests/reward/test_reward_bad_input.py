"""What reward functions may give and do: coerced where that is safe, else a typed failure."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from reward_episodes import make_episode

from retrain.errors import Boundary, ToolFailure
from retrain.reward import ComponentKind, OnFailure, RewardCalculator, RewardComponent, Scored
from retrain.reward.registry import REWARDS
from retrain.types import Action, Task, ToolCall, Trajectory, Turn


async def score(function: Callable[..., Any], *episodes: Trajectory, **options: Any) -> Scored:
    component = RewardComponent("r", ComponentKind.ROLLOUT, function, **options)
    return (await RewardCalculator([component]).score(episodes or [make_episode("x")]))[0]


def tensor(value: Any) -> Any:
    return pytest.importorskip("torch", reason="needs torch").tensor(value)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: True, 1.0),
        (lambda: np.float16(0.5), 0.5),
        (lambda: np.int64(3), 3.0),
        (lambda: np.bool_(True), 1.0),
        (lambda: np.array(0.25), 0.25),
        (lambda: np.array([0.25]), 0.25),
        (lambda: tensor(0.5), 0.5),
        (lambda: tensor([2]), 2.0),
        (lambda: {"score": np.float32(0.5), "acc": True}, 0.5),
        (lambda: None, None),
    ],
)
async def test_what_holds_one_number_is_that_number(
    make: Callable[[], Any], expected: float | None
) -> None:
    value = make()
    scored = await score(lambda trajectory: value, reward_key="score")
    assert (scored.total, scored.error) == (expected, None)


class Unreadable:
    """A scalar of some library that cannot be read."""

    def item(self) -> float:
        raise LookupError("no number")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: float("nan"), "returned nan; expected a finite number"),
        (lambda: tensor(float("inf")), "returned inf; expected a finite number"),
        (lambda: 10**400, "expected a finite number"),
        (lambda: [10**5000], "returned list a list too long to show; expected a number"),
        (lambda: "1.0", "returned str '1.0'; expected a number"),
        (lambda: 1 + 2j, "returned complex (1+2j); expected a number"),
        (lambda: Decimal("1"), "returned Decimal Decimal('1'); expected a number"),
        (lambda: [1.0], "returned list [1.0]; expected a number"),
        (lambda: np.zeros(2), "returned ndarray array([0., 0.]); expected a number"),
        (lambda: tensor([1.0, 2.0]), "returned Tensor tensor([1., 2.]); expected a number"),
        (lambda: {"acc": 1.0}, "returned a mapping of acc; reward_key is 'score'"),
        (lambda: {"score": "good"}, "returned str 'good'; expected a number"),
        (lambda: "x" * 10**6, "returned str 'xxxx"),
    ],
)
async def test_anything_else_is_a_failure(make: Callable[[], Any], said: str) -> None:
    value = make()
    scored = await score(lambda trajectory: value, reward_key="score")
    assert scored.total is None and scored.error is not None and scored.scoring is not None
    assert said in scored.error.reason and len(scored.error.reason) < 300
    assert scored.error.boundary is Boundary.REWARD
    assert scored.scoring.failures == {"r": "value"}


async def test_a_scalar_that_cannot_be_read_is_a_failure() -> None:
    scored = await score(lambda trajectory: Unreadable())
    assert scored.error is not None and scored.error.reason == "reward r: LookupError: no number"


async def test_a_mapping_without_a_key_says_what_to_set() -> None:
    scored = await score(lambda trajectory: {"score": 1.0, "acc": 0.0})
    assert scored.error is not None
    assert "a mapping of score, acc; set reward_key to one of them" in scored.error.reason


async def test_steps_may_give_mappings_and_never_nothing() -> None:
    def step(turn: Turn, trajectory: Trajectory) -> Any:
        return {"score": len(turn.action.text)} if turn.action.text else None

    component = RewardComponent("s", ComponentKind.STEP, step, reward_key="score")
    good, bad = await RewardCalculator([component]).score(
        [make_episode("a", "bb"), make_episode("a", "")]
    )
    assert good.total == 3.0
    assert bad.error is not None and "returned NoneType None" in bad.error.reason


@pytest.mark.parametrize("label", [None, [], {}, True, b"4", float("nan"), ""])
@pytest.mark.parametrize("name", ["numeric_match", "substring_match", "exact_match"])
async def test_a_label_of_a_wrong_kind_never_crashes_a_run(name: str, label: Any) -> None:
    scored = await score(REWARDS.get(name), make_episode("4", label=label))
    if label is None or (name == "numeric_match" and scored.total is None):
        assert scored.error is not None and "label" in scored.error.reason
    else:
        assert scored.total in (None, 0.0, 1.0)


def changes_metadata(trajectory: Trajectory) -> float:
    metadata: Any = trajectory.task.metadata
    metadata["tests"].append("easy")
    metadata["seen"] = True
    trajectory.task.label.clear()
    turn = trajectory.turns[0]
    turn.info["success"] = True  # type: ignore[index]
    turn.action.tool_calls[0].arguments["x"] = 2  # type: ignore[index]
    return 1.0


async def changes_metadata_later(trajectory: Trajectory) -> float:
    await asyncio.sleep(0)
    return changes_metadata(trajectory)


def changes_all(trajectories: list[Trajectory]) -> list[float]:
    return [changes_metadata(trajectory) for trajectory in trajectories]


def mutable_episode() -> Trajectory:
    episode = make_episode(Action("x", tool_calls=(ToolCall("f", {"x": 1}),)))
    task = Task("t", "Go.", label=["a"], metadata={"tests": ["hard"]})
    (segment,) = episode.segments
    (turn,) = segment.turns
    turn = replace(turn, info={"success": False})
    return replace(episode, task=task, segments=(replace(segment, turns=(turn,)),))


@pytest.mark.parametrize("function", [changes_metadata, changes_metadata_later, changes_all])
async def test_what_a_function_changes_is_its_own_copy(function: Callable[..., Any]) -> None:
    episode = mutable_episode()
    seen: list[Any] = []
    first = RewardComponent("first", ComponentKind.ROLLOUT, function)
    second = RewardComponent(
        "second",
        ComponentKind.ROLLOUT,
        lambda trajectory: float("seen" not in trajectory.task.metadata),
        verifiers=(lambda trajectory: not seen.append(changes_metadata(trajectory)),),
    )

    for _ in range(2):
        (scored,) = await RewardCalculator([first, second]).score([episode])
        assert scored.components == {"first": 1.0, "second": 1.0}

    assert episode == mutable_episode() and seen == [1.0, 1.0]


async def test_setting_a_field_is_a_failure() -> None:
    def sets(trajectory: Any) -> float:
        trajectory.reward = 1.0
        return 1.0

    scored = await score(sets)
    assert scored.error is not None and FrozenInstanceError.__name__ in scored.error.reason


async def test_a_failure_of_another_boundary_is_still_a_components_failure() -> None:
    def tool_broke(trajectory: Trajectory) -> float:
        raise ToolFailure("the judge's tool is gone")

    scored = await score(tool_broke)
    assert scored.total is None and scored.dropped
    assert scored.scoring is not None and scored.scoring.failures == {"r": "exception"}


async def test_what_never_returns_is_left_behind_in_time() -> None:
    release = threading.Event()

    def waits(trajectory: Trajectory) -> float:
        release.wait(30)
        return 1.0

    began = time.monotonic()
    scored = await score(waits, timeout=0.05)
    release.set()

    assert time.monotonic() - began < 10
    assert scored.scoring is not None and scored.scoring.failures == {"r": "timeout"}


class Flaky:
    """Fails a number of times, then gives 1."""

    def __init__(self, failures: int, how: Any = "raise") -> None:
        self.left, self.calls, self.how = failures, 0, how

    def __call__(self, trajectory: Trajectory) -> Any:
        self.calls += 1
        self.left -= 1
        if self.left < 0:
            return 1.0
        if self.how == "raise":
            raise OSError("busy")
        return self.how


@pytest.mark.parametrize("how", ["raise", float("nan"), "text"])
async def test_retry_tries_again_and_counts(how: Any) -> None:
    flaky = Flaky(2, how)
    scored = await score(flaky, on_failure=OnFailure.RETRY, retries=2)
    assert (scored.total, flaky.calls) == (1.0, 3)
    assert scored.error is None and scored.scoring is not None
    assert scored.scoring.retries == {"r": 2} and not scored.scoring.failures


async def test_retry_ends_and_drops() -> None:
    flaky = Flaky(99)
    scored = await score(flaky, on_failure=OnFailure.RETRY, retries=2)
    assert (scored.total, scored.dropped, flaky.calls) == (None, True, 3)
    assert scored.scoring is not None and scored.scoring.failures == {"r": "exception"}


async def test_retries_go_with_every_policy() -> None:
    scored = await score(Flaky(99), on_failure=OnFailure.VALUE, value=-1.0, retries=1)
    assert scored.total == -1.0
    assert scored.scoring is not None
    assert scored.scoring.retries == {"r": 1} and scored.scoring.failures == {"r": "exception"}
