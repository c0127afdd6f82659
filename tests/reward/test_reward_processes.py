"""`run_in: process`: what hangs, crashes or grows there is ended, and the run goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reward_episodes import make_episode

from retrain.config.rewards import RewardSetupConfig
from retrain.errors import ConfigError
from retrain.reward import RewardCalculator, Scored, build_reward_calculator
from retrain.reward.hub.pool import close_pools, function_pool
from retrain.types import Action, ToolCall, Trajectory, Turn


@pytest.fixture(autouse=True, scope="module")
def pools() -> Iterator[None]:
    yield
    close_pools()


def where(trajectory: Trajectory, *, bonus: float = 0.0) -> float:
    return os.getpid() + bonus


async def later(trajectory: Trajectory) -> Any:
    return np.float32(len(trajectory.response_text))


def many(trajectories: list[Trajectory]) -> Any:
    return np.array([len(t.response_text) for t in trajectories])


def per_turn(turn: Turn, trajectory: Trajectory) -> dict[str, float]:
    return {"score": float(len(turn.action.text)), "other": 9.0}


def hangs_on_hang(trajectory: Trajectory) -> float:
    while trajectory.response_text == "hang":
        pass
    return 1.0


def dies(trajectory: Trajectory) -> float:
    os._exit(1)


def raises(trajectory: Trajectory) -> float:
    raise KeyError("no such thing")


def nan(trajectory: Trajectory) -> float:
    return float("nan")


def odd(trajectory: Trajectory) -> Any:
    return object()


def short(trajectories: list[Trajectory]) -> list[float]:
    return [1.0]


def of_completions(completions: Any, **columns: Any) -> list[float]:
    return [1.0] * len(completions)


def build(name: str, section: str = "rollout", **config: Any) -> RewardCalculator:
    entry = {f"{__name__}:{name}": {"run_in": "process", **config}}
    setup = RewardSetupConfig.model_validate({f"{section}_reward_configs": entry})
    return build_reward_calculator(setup, environment_rewards=False, decode=str)


async def score(name: str, *texts: str, **config: Any) -> tuple[Scored, ...]:
    return await build(name, **config).score([make_episode(text) for text in texts])


async def test_a_function_runs_in_another_process_with_its_parameters() -> None:
    (scored,) = await score("where", "x", params={"bonus": 0.5})
    assert scored.total is not None and scored.total % 1 == 0.5
    assert int(scored.total) not in (os.getpid(), function_pool().pid)


async def test_functions_of_every_kind_cross_over() -> None:
    assert [s.total for s in await score("later", "abc", "")] == [3.0, 0.0]
    assert [s.total for s in await score("many", "a", "bb", "ccc", batch_size=2)] == [1, 2, 3]
    calculator = build("per_turn", "step", reward_key="score", distribution="own")
    call = Action("bb", tool_calls=(ToolCall("f", {"x": [1]}),))
    (scored,) = await calculator.score([make_episode("a", call)])
    assert scored.total == 3.0
    assert scored.scoring is not None and scored.scoring.turns == {"per_turn": (1.0, 2.0)}


async def test_what_hangs_is_killed_and_nothing_is_left_running() -> None:
    await score("where", "x")
    nursery = function_pool().pid
    before = time.process_time()

    hung, fine = await score("hangs_on_hang", "hang", "fine", timeout=0.3)

    assert (hung.total, fine.total) == (None, 1.0)
    assert hung.error is not None and hung.scoring is not None
    assert hung.error.reason == (
        "reward hangs_on_hang: no answer within 0.3 s: the process was ended"
    )
    assert hung.scoring.failures == {"hangs_on_hang": "timeout"}
    assert time.process_time() - before < 5, "the hang cost this process nothing"
    assert function_pool().pid == nursery
    deadline = time.monotonic() + 20
    while _busy(nursery) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _busy(nursery)


@pytest.mark.parametrize(
    ("name", "said", "kind"),
    [
        ("dies", "reward dies: the process ended: out of memory, or a crash", "exception"),
        ("raises", "reward raises: KeyError: 'no such thing'", "exception"),
        ("nan", "reward nan returned nan; expected a finite number", "value"),
        ("odd", "reward odd: BadValue: returned object <object", "exception"),
        ("short", "reward short returned 1 values for 2 episodes", "count"),
    ],
)
async def test_a_failure_there_is_a_failure_here(name: str, said: str, kind: str) -> None:
    scored, _ = await score(name, "x", "y")
    assert scored.total is None and scored.error is not None and scored.scoring is not None
    assert said in scored.error.reason
    assert scored.scoring.failures == {name: kind}


def test_what_cannot_cross_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"of_completions\.run_in: process is for functions"):
        build("of_completions")


def _busy(nursery: int | None) -> list[str]:
    """Children of the nursery that compute; idle workers wait for the next call."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == str(nursery) and fields[0] == "R":
            found.append(folder.name)
    return found
