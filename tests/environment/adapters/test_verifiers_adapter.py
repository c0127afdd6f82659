"""`type: verifiers`: environments of verifiers v1 play, and the turns are the engine's."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="needs verifiers: pip install 'verifiers>=0.4'")

import httpx

from retrain.environment import make_environment_factory
from retrain.environment.adapters.model_calls import ModelCalls
from retrain.environment.adapters.verifiers import VerifiersEnvironment
from retrain.environment.rewriting import rewrites_history
from retrain.errors import ConfigError, EnvironmentFailure, MissingDependency
from retrain.testing import EnvironmentSuite
from retrain.types import Action, Message, StepResult, Task, ToolCall

LOCAL = {"type": "subprocess"}
PLAYER = {"harness": {"id": "letters_taskset"}, "runtime": LOCAL}
ENV = {"taskset": {"id": "letters_taskset"}, "player": PLAYER}
FORGETS = {**ENV, "player": {**PLAYER, "harness": {"id": "letters_taskset", "forgets": True}}}
SEA, TREE, APPLE = VerifiersEnvironment.tasks(env=ENV)


class TestLetters(EnvironmentSuite):
    task, other_task = SEA, TREE
    answer = "e"

    def make_environment(self) -> Any:
        return make_environment_factory("verifiers", {"env": ENV})()


async def play(actions: list[Action], **config: Any) -> tuple[Any, list[StepResult]]:
    environment = make_environment_factory("verifiers", {"env": ENV, **config})()
    try:
        prompt = await environment.reset(SEA, 1)
        return prompt, [await environment.step(action) for action in actions]
    finally:
        await environment.close()


async def test_its_episode_is_played_and_its_reward_is_the_episode_s() -> None:
    prompt, results = await play([Action("s"), Action("a")])

    assert prompt.messages == (Message("user", "Name a letter of sea."),)
    assert [m.content for m in results[0].observation.messages] == ["Another letter of sea."]
    assert [(r.reward, r.terminated) for r in results] == [(0.0, False), (1.0, True)]
    assert results[1].info["reward_letters"] == 1.0


async def test_the_harness_s_tools_are_shown_and_their_results_are_new_messages() -> None:
    calls = ToolCall("spell", {"word": "sea"}, "mine"), ToolCall("spell", {"word": "a"})
    _, results = await play([Action("Hm.", "think", calls), Action("s"), Action("e")])

    first, second = results[0].observation.messages
    assert not results[0].observation.rewrite
    assert first == Message("tool", "s-e-a", tool_call_id="mine", name="spell")
    assert second == Message("tool", "a", name="spell")
    assert results[2].reward == 1.0


async def test_a_history_that_is_told_anew_is_a_segment_of_its_own() -> None:
    spell = Action("", tool_calls=(ToolCall("spell", {"word": "sea"}),))
    _, results = await play([spell, Action("s")], env=FORGETS, rewrites=True)

    assert results[0].observation.rewrite
    assert results[0].observation.messages == (Message("user", "sea is s-e-a."),)
    assert rewrites_history("verifiers", {"env": FORGETS, "rewrites": True})
    assert not rewrites_history("verifiers", {"env": ENV})
    with pytest.raises(EnvironmentFailure, match=r"set env_specific_config\.rewrites: true"):
        await play([spell], env=FORGETS)


async def test_a_world_that_breaks_fails_the_episode() -> None:
    with pytest.raises(EnvironmentFailure, match=r"verifiers: .*the world broke"):
        await play([Action("crash")])


async def test_a_turn_that_is_given_up_leaves_nothing_open() -> None:
    environment = VerifiersEnvironment(env=ENV)
    await environment.reset(APPLE, 1)
    url = environment._calls.url
    await environment.close()

    assert environment._playing is not None
    assert environment._playing.done()
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(url)


async def test_nobody_else_can_ask_for_a_turn() -> None:
    calls = ModelCalls()
    await calls.open()
    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{calls.url}/v1/chat/completions", json={"messages": []})
    await calls.close()

    assert answer.status_code == 401


async def test_an_agent_that_is_not_trained_needs_a_model_of_its_own() -> None:
    env = {**ENV, "judged": True}
    with pytest.raises(EnvironmentFailure, match="player is not trained, and asks the model that"):
        await play([Action("s"), Action("a")], env=env)


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("uv") is None, reason="its harness is a program that uv prepares")
async def test_verifiers_own_chat_program_plays_it() -> None:
    env = {**ENV, "player": {"harness": {"id": "null"}, "runtime": LOCAL}}
    prompt, results = await play([Action("s"), Action("a")], env=env)

    assert prompt.messages == (Message("user", "Name a letter of sea."),)
    assert [r.reward for r in results] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"taskset": {"id": "nowhere"}}, "taskset 'nowhere' not found"),
        ({**ENV, "plyer": {}}, "plyer"),
    ],
)
def test_a_wrong_block_is_named(env: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"env_specific_config\.env: .*(?s:.*){said}"):
        VerifiersEnvironment.tasks(env=env)


async def test_other_tasks_are_refused() -> None:
    with pytest.raises(EnvironmentFailure, match="is none of verifiers"):
        await VerifiersEnvironment(env=ENV).reset(Task("t", "x"), 1)


def test_its_absence_gives_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrain.environment.adapters.loading.find_spec", lambda _: None)

    with pytest.raises(MissingDependency, match=r"pip install 'verifiers>=0\.4'"):
        make_environment_factory("verifiers", {"env": ENV})()
