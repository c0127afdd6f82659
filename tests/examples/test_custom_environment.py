"""`examples/custom_environment`: the game, its rewards and its configuration."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from example_folders import inside, prepared, require_planned

from retrain.config import load_config
from retrain.environment import Environment, make_environment_factory
from retrain.types import Action, StepResult, Task

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "custom_environment"


@pytest.fixture(scope="module", autouse=True)
def in_the_example() -> Iterator[None]:
    """Work in the example's folder; forget its modules afterwards."""
    with inside(EXAMPLE, "environment", "rewards", "prepare"):
        yield


@pytest.fixture(scope="module")
def generated(in_the_example: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What prepare.py writes."""
    import prepare

    folder = tmp_path_factory.mktemp("custom_environment")
    return prepared(lambda: asyncio.run(prepare.main()), folder, 90)


def new_game(**arguments: Any) -> Environment:
    return make_environment_factory("environment:GuessNumber", arguments)()


async def play(
    choose: Callable[[int, int], int], *, highest: int, seed: int, **arguments: Any
) -> list[StepResult]:
    """Guess what `choose` makes of the lowest and highest possible number until it is over."""
    game = new_game(**arguments)
    await game.reset(Task("t", "Guess.", metadata={"highest": highest}), seed)
    low, high, results = 1, highest, []
    while not results or not (results[-1].terminated or results[-1].truncated):
        guess = choose(low, high)
        results.append(await game.step(Action(f"Is it {guess}?")))
        (message,) = results[-1].observation.messages
        low = guess + 1 if message.content == "higher" else low
        high = guess - 1 if message.content == "lower" else high
    await game.close()
    return results


@pytest.mark.parametrize("highest", [10, 50, 100])
async def test_halving_always_finds_the_number(highest: int) -> None:
    for seed in range(100):
        results = await play(lambda low, high: (low + high) // 2, highest=highest, seed=seed)
        assert results[-1].terminated and results[-1].info["success"]
        assert len(results) <= 7
        assert sum(result.reward for result in results) == pytest.approx(1.0)


async def test_every_way_to_the_number_earns_the_same() -> None:
    rng = random.Random(0)
    lengths = set()
    for seed in range(100):
        results = await play(rng.randint, highest=30, seed=seed, max_guesses=30)
        lengths.add(len(results))
        assert results[-1].info["success"]
        assert min(result.reward for result in results) >= 0
        assert sum(result.reward for result in results) == pytest.approx(1.0)
    assert len(lengths) > 5


async def test_what_rules_nothing_out_earns_nothing() -> None:
    game = new_game()
    await game.reset(Task("t", "Guess.", metadata={"highest": 100}), seed=0)
    for text in ("no idea", "0", "999", "1" * 5000):
        result = await game.step(Action(text))
        assert (result.reward, result.info["possible"]) == (0.0, 100)
        assert not result.info["success"]
    again = await game.step(Action("no idea"))
    assert again.observation.messages[0].content == "That is not a number."
    await game.close()


async def test_the_last_guess_cuts_the_episode() -> None:
    results = await play(lambda low, high: 999, highest=100, seed=0)
    assert [result.truncated for result in results] == [False] * 6 + [True]
    assert not results[-1].info["success"]


async def test_a_seed_is_a_number() -> None:
    async def replies(seed: int) -> list[str]:
        results = await play(lambda low, high: low, highest=50, seed=seed, max_guesses=50)
        return [message.content for r in results for message in r.observation.messages]

    assert await replies(3) == await replies(3)
    assert len({len(await replies(seed)) for seed in range(20)}) > 5


async def test_the_environment_gives_the_demonstrations_their_replies(generated: Path) -> None:
    lines = (generated / "demonstrations.jsonl").read_text(encoding="utf-8").splitlines()
    found = set()
    for row in map(json.loads, lines):
        said = [message["content"] for message in row["messages"]]
        low, high = 1, int(re.findall(r"from 1 to (\d+)", said[0])[0])
        for guess, reply in zip(map(int, said[1::2]), said[2::2], strict=False):
            low = max(low, guess + 1) if reply == "higher" else low
            high = min(high, guess - 1) if reply == "lower" else high
        assert low <= high
        assert len(said) <= 1 + 2 * 6
        found.add(low <= int(said[-1]) <= high)
    assert found == {True, False}


@pytest.mark.parametrize("backend", ["trl", "slime"])
def test_the_configuration_is_planned(generated: Path, backend: str) -> None:
    overrides = (
        f"model.name_or_path={generated}/model",
        f"prompt_source.source_config.path={generated}/train.jsonl",
        f"evaluation.prompt_source.source_config.path={generated}/heldout.jsonl",
        f"stages.0.prompt_source.source_config.path={generated}/demonstrations.jsonl",
    )
    require_planned("config.yaml", overrides, backend)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("config_pretrained.yaml", ()),
        ("config.yaml", ("prompt_source.source_config.path={}/train.jsonl",)),
    ],
)
async def test_the_configurations_play_and_score_a_player_that_halves(
    generated: Path, name: str, overrides: tuple[str, ...]
) -> None:
    from retrain.compose import compose, make_buffer, make_tasks
    from retrain.engine.scripted import ScriptedEngine
    from retrain.model_files import load_tokenizer

    given = ("model.name_or_path={}/model", *overrides)
    config = load_config(EXAMPLE / name, [each.format(generated) for each in given])
    composition, tokenizer = compose(config), load_tokenizer(config)
    renderer = composition.renderer

    def halve(input_ids: tuple[int, ...], *_: Any) -> str:
        text = renderer.decode(input_ids)
        low, high = 1, int(re.findall(r"from 1 to (\d+)", text)[0])
        for guess, reply in re.findall(r"(\d+)<\|im_end\|>\s*<\|im_start\|>user\n(\w+)", text):
            low, high = (int(guess) + 1, high) if reply == "higher" else (low, int(guess) - 1)
        return f"{(low + high) // 2}<|im_end|>"

    engine = ScriptedEngine(
        halve, encode=lambda text: tokenizer.encode(text, add_special_tokens=False)
    )
    requests = make_buffer(config, make_tasks(config)).draw(6)
    groups = await composition.rollouts(engine).collect(requests)
    lengths = [{len(episode.turns) for episode in group.trajectories} for group in groups]
    assert all(len(of_group) == 1 for of_group in lengths), "a group has one number"
    assert len(set.union(*lengths)) > 1, "visits have different numbers"
    for group in groups:
        for episode in group.trajectories:
            assert episode.error is None
            assert set(episode.rewards) == {"environment", "quick"}
            assert episode.rewards["quick"] == pytest.approx(1 / len(episode.turns))
            assert episode.reward == pytest.approx(1 + 0.5 / len(episode.turns))
