"""`examples/textarena`: the player of Nim, the demonstrations and the configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
from example_folders import inside, prepared, require_planned

pytest.importorskip("textarena", reason="needs TextArena: pip install 'retrain[textarena]'")

from retrain.config import load_config

EXAMPLE = Path(__file__).parents[2] / "examples" / "textarena"


@pytest.fixture(scope="module", autouse=True)
def in_the_example() -> Iterator[None]:
    """Work in the example's folder; forget its modules afterwards."""
    with inside(EXAMPLE, "players", "prepare"):
        yield


@pytest.fixture(scope="module")
def players(in_the_example: None) -> ModuleType:
    import players

    return players


@pytest.fixture(scope="module")
def generated(in_the_example: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    import prepare

    return prepared(prepare.main, tmp_path_factory.mktemp("textarena"), 60)


@cache
def whoever_moves_wins(piles: tuple[int, ...]) -> bool:
    """Play every game to its end: the rules alone, without Bouton's theorem."""
    return any(not whoever_moves_wins(rest) for rest in after_each_move(piles))


def after_each_move(piles: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for pile, size in enumerate(piles):
        for rest in range(size):
            yield (*piles[:pile], rest, *piles[pile + 1 :])


def test_winning_moves_are_those_that_the_whole_tree_of_games_names(players: ModuleType) -> None:
    for piles in product(range(4), range(5), range(6)):
        wins = {rest for rest in after_each_move(piles) if not whoever_moves_wins(rest)}
        found = players.winning_moves(list(piles))
        assert len(found) == len(wins)
        for pile, taken in found:
            assert (*piles[:pile], piles[pile] - taken, *piles[pile + 1 :]) in wins


def test_the_player_reads_the_last_board_and_plays_the_same_for_the_same_seed(
    players: ModuleType,
) -> None:
    said = "Current Pile:\n pile 0: 3\n pile 1: 4\n[0 3]\nCurrent Pile:\n pile 0: 0\n pile 1: 4"

    assert players.Player(seed=1, skill=1.0)(said) == "[1 4]"
    chance = [players.Player(seed=seed, skill=0.0)(said) for seed in range(40)]
    assert chance == [players.Player(seed=seed, skill=0.0)(said) for seed in range(40)]
    assert set(chance) == {"[1 1]", "[1 2]", "[1 3]", "[1 4]"}


def test_the_demonstrations_are_games_by_the_rules(generated: Path) -> None:
    lines = (generated / "demonstrations.jsonl").read_text(encoding="utf-8").splitlines()
    games = [json.loads(line)["messages"] for line in lines]
    assert len(games) == 60
    assert "invalid" not in str(games)
    assert all("Welcome to Nim, Player 0!" in game[0]["content"] for game in games)
    assert all(game[-1]["role"] == "assistant" for game in games)


@pytest.mark.parametrize("backend", ["trl", "slime"])
@pytest.mark.parametrize("name", ["config.yaml", "self_play.yaml"])
def test_the_configurations_are_planned(generated: Path, name: str, backend: str) -> None:
    overrides = (
        f"model.name_or_path={generated}/model",
        f"stages.0.prompt_source.source_config.path={generated}/demonstrations.jsonl",
    )
    require_planned(name, overrides, backend)


async def test_the_best_player_wins_what_can_be_won(generated: Path, players: ModuleType) -> None:
    from retrain.compose import compose, make_buffer, make_tasks
    from retrain.engine.scripted import ScriptedEngine
    from retrain.model_files import load_tokenizer

    config = load_config(
        EXAMPLE / "config.yaml",
        [
            f"model.name_or_path={generated}/model",
            "environment.env_specific_config.seat=null",
            "algorithm.hyperparameters.n_samples_per_prompt=2",
        ],
    )
    composition, tokenizer = compose(config), load_tokenizer(config)
    best = players.Player(seed=0, skill=1.0)
    engine = ScriptedEngine(
        lambda input_ids, *_: f"{best(composition.renderer.decode(input_ids))}<|im_end|>",
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
    )
    requests = make_buffer(config, make_tasks(config)).draw(8)
    groups = await composition.rollouts(engine).collect(requests)

    seats = set()
    for group in groups:
        for episode in group.trajectories:
            assert episode.error is None
            seat = episode.turns[-1].info["seat"]
            assert episode.rewards == {"environment": 1.0 if seat == 0 else -1.0}
            seats.add(seat)
    assert seats == {0, 1}
