"""`type: gem`: games and data sets of GEM."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("gem", reason="needs GEM: pip install 'retrain[gem]'")

from retrain.environment import make_environment_factory
from retrain.errors import EnvironmentFailure
from retrain.testing import EnvironmentSuite
from retrain.types import Action, StepResult, Task

GUESS = {"id": "game:GuessTheNumber-v0-easy"}


class TestGuessTheNumber(EnvironmentSuite):
    answer = r"\boxed{4}"

    def make_environment(self) -> Any:
        return make_environment_factory("gem", GUESS)()


class TestGame2048(EnvironmentSuite):
    """Draws a tile at every move."""

    answer = r"\boxed{up}"

    def make_environment(self) -> Any:
        return make_environment_factory("gem", {"id": "game:Game2048-v0-easy"})()


class TestReasoningGymOfGem(EnvironmentSuite):
    def make_environment(self) -> Any:
        return make_environment_factory("gem", {"id": "rg:letter_counting"})()


async def play(config: dict[str, Any], seed: int, actions: list[str]) -> list[StepResult]:
    environment = make_environment_factory("gem", config)()
    await environment.reset(Task("t", ""), seed)
    results = []
    for text in actions:
        results.append(await environment.step(Action(text)))
        await asyncio.sleep(0)
        if results[-1].terminated:
            break
    await environment.close()
    return results


async def test_a_game_is_won_with_gem_s_own_reward() -> None:
    environment = make_environment_factory("gem", GUESS)()
    prompt = await environment.reset(Task("t", "Play."), 5)
    number = environment.world.env.game_number
    wrong = number - 1 or number + 1
    results = [await environment.step(Action(f"\\boxed{{{n}}}")) for n in (wrong, number)]
    await environment.close()

    assert prompt.messages[0].content.startswith("Play.\n\nYou are playing Guess The Number.")
    assert prompt.messages[0].content.endswith("start the game.\nEnter your next guess.")
    hint = "higher" if wrong < number else "lower"
    said = f"At turn 1, you guessed {wrong}, and the target number is {hint} than {wrong}."
    assert results[0].observation.messages[0].content == f"{said}\nEnter your next guess."
    assert [(r.reward, r.terminated) for r in results] == [(0.0, False), (1.0, True)]


async def test_many_games_side_by_side_are_those_that_each_is_alone() -> None:
    moves = [rf"\boxed{{{move}}}" for move in ("up", "left", "down", "right") * 5]
    config = {"id": "game:Game2048-v0-easy"}
    alone = [await play(config, seed, moves) for seed in range(8)]
    together = await asyncio.gather(*(play(config, seed, moves) for seed in range(8)))

    assert list(together) == alone
    assert len({str(results) for results in alone}) == 8


async def test_an_unknown_name_fails_with_gem_s_words() -> None:
    with pytest.raises(EnvironmentFailure, match="game:Nothing not found in registry"):
        await play({"id": "game:Nothing"}, 1, [])
