"""`type: gymnasium`: a registered environment, read and played as text, and a class by its path."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import pytest

from retrain.environment import make_environment_factory
from retrain.environment.adapters.gymnasium import GymnasiumEnvironment
from retrain.errors import ConfigError, EnvironmentFailure, MissingDependency
from retrain.testing import EnvironmentSuite
from retrain.types import Action, Task

HERE = __name__
HERS = "environment.env_specific_config"
needs_gymnasium = pytest.mark.skipif(
    find_spec("gymnasium") is None, reason="needs Gymnasium: pip install 'retrain[gymnasium]'"
)
LAKE = {
    "id": "FrozenLake-v1",
    "arguments": {"render_mode": "ansi"},
    "observation": "render",
    "actions": ["left", "down", "right", "up"],
}


class Countdown:
    """Count down to 0, from where the seed says; observations are dictionaries."""

    def __init__(self, *, odd: bool = False) -> None:
        self.left = 0
        self.odd = odd
        self.closed = False

    def reset(self, *, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.left = 2 + (seed or 0) % 5
        return self._seen(), {}

    def step(self, action: str) -> Any:
        if self.odd:
            return self._seen(), 0.0, False, {}
        self.left -= 1
        right = action.strip() == str(self.left)
        return self._seen(), float(right), self.left == 0, not right, {"success": right}

    def close(self) -> None:
        self.closed = True

    def _seen(self) -> dict[str, Any]:
        return {"text": f"From {self.left}.", "left": self.left}


@needs_gymnasium
class TestFrozenLake(EnvironmentSuite):
    answer = "I go down."

    def make_environment(self) -> Any:
        return make_environment_factory("gymnasium", LAKE)()


class TestCountdown(EnvironmentSuite):
    answer = "3"

    def make_environment(self) -> Any:
        return GymnasiumEnvironment(id=f"{HERE}:Countdown", observation="text")


@needs_gymnasium
async def test_a_registered_environment_is_played_by_the_names_of_its_actions() -> None:
    arguments = {"render_mode": "ansi", "is_slippery": False}
    environment = make_environment_factory("gymnasium", {**LAKE, "arguments": arguments})()
    seen = await environment.reset(Task("t", "Reach G."), 1)
    path = ["down", "Down", "not left, but RIGHT", "right", "down", "right"]
    results = [await environment.step(Action(text)) for text in path]
    await environment.close()

    assert seen.messages[0].content.startswith("Reach G.\n\n\n\x1b[41mS")
    assert "(Down)" in results[0].observation.messages[0].content
    assert [(r.reward, r.terminated) for r in results] == [(0.0, False)] * 5 + [(1.0, True)]


@needs_gymnasium
async def test_an_action_that_cannot_be_read_leaves_the_environment_as_it_was() -> None:
    environment = make_environment_factory("gymnasium", LAKE)()
    await environment.reset(Task("t", ""), 1)
    result = await environment.step(Action("I do not know"))
    inner = environment.world
    await environment.close()

    assert result.observation.messages[0].content == (
        "No action could be read. Answer with one of left, down, right, up."
    )
    assert not (result.terminated or result.truncated)
    assert inner.env.unwrapped.lastaction is None


@needs_gymnasium
async def test_numbers_are_read_where_actions_have_no_names() -> None:
    environment = make_environment_factory("gymnasium", {**LAKE, "actions": []})()
    await environment.reset(Task("t", ""), 1)
    told = [(await environment.step(Action(t))).observation for t in ("7", "not 3.5", "1, so 2")]
    await environment.close()

    assert ["number from 0 to 3" in o.messages[0].content for o in told] == [True, True, False]


@needs_gymnasium
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({**LAKE, "actions": ["left"]}, rf"{HERS}.actions: FrozenLake-v1: 1 names for 4 actions"),
        (
            {"id": "CartPole-v1", "observation": "render"},
            "render.. of CartPole-v1 returns NoneType",
        ),
        ({"id": "Pendulum-v1"}, "the action space Box.* is neither Text nor Discrete"),
    ],
)
async def test_what_cannot_be_played_as_text_is_named(config: dict[str, Any], said: str) -> None:
    environment = make_environment_factory("gymnasium", config)()

    with pytest.raises(ConfigError, match=said):
        await environment.reset(Task("t", ""), 1)
    await environment.close()


async def test_the_seed_reaches_the_environment_and_close_closes_it() -> None:
    environment = make_environment_factory("gymnasium", {"id": f"{HERE}:Countdown"})()
    first = await environment.reset(Task("t", ""), 2**62 + 3)
    inner = environment.world.env
    result = await environment.step(Action("4"))
    await environment.close()

    assert first.messages[0].content == "text: From 5.\nleft: 5"
    assert (result.reward, result.info) == (1.0, {"success": True})
    assert inner.closed


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"arguments": {"odd": True}}, r"step returned .* expected \(observation, reward, term"),
        ({"observation": "txt"}, "has no entry 'txt'; did you mean 'text'"),
        ({"arguments": {"even": True}}, "unexpected keyword argument 'even'"),
    ],
)
async def test_an_environment_of_another_form_fails_with_the_reason(
    config: dict[str, Any], said: str
) -> None:
    environment = make_environment_factory("gymnasium", {"id": f"{HERE}:Countdown", **config})()

    with pytest.raises(EnvironmentFailure, match=said):
        await environment.reset(Task("t", ""), 1)
        await environment.step(Action("1"))
    await environment.close()


def test_its_absence_gives_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.setattr("retrain.environment.adapters.loading.find_spec", lambda _: None)

    with pytest.raises(MissingDependency, match=r"pip install 'retrain\[gymnasium\]'"):
        make_environment_factory("gymnasium", LAKE)()
