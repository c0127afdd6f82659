"""Both seats of a game, played by the protocol of several agents."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

from examples.matching.asker import write_proposal
from examples.matching.assignment import best_assignment
from examples.matching.drawing import draw_board
from examples.matching.generate import SMALL, game_row, write_rows
from examples.matching.prompts import list_scores
from examples.matching.self_play import MatchingPair
from retrain.types import Action, Task

CONFIG = Path(__file__).parents[2] / "examples" / "matching" / "self_play.yaml"
BOARD = draw_board(Random(4), SMALL)
TASK = Task("t", "", metadata=game_row(0, BOARD, "scores"))


async def play(pair: MatchingPair, *texts: str) -> list[tuple[str, str]]:
    """Play the turns in order; (agent, what it was told) of each."""
    await pair.reset(TASK, 0)
    told = []
    for text in texts:
        (agent,) = await pair.acting()
        observation = await pair.observe(agent)
        told.append((agent, observation.messages[0].content))
        await pair.step(agent, Action(text))
    return told


def pair_of(**settings: Any) -> MatchingPair:
    return MatchingPair(prompt="scores", **settings)


async def test_both_see_their_own_scores_and_earn_the_same() -> None:
    pair = pair_of()
    best = write_proposal(best_assignment(BOARD.table), BOARD.names)
    told = await play(
        pair, "[message] Ava on BLEU?", "[message] 4", f"[propose] {best}", "[accept]"
    )
    assert told == [
        ("first", list_scores(BOARD.view(0))),
        ("second", f"{list_scores(BOARD.view(1))}\n\n[message] Ava on BLEU?"),
        ("first", "[message] 4"),
        ("second", f"[propose] {best}"),
    ]
    assert await pair.acting() == ()
    outcomes = await pair.outcomes()
    assert {agent: outcome.reward for agent, outcome in outcomes.items()} == {
        "first": 1.0,
        "second": 1.0,
    }
    assert outcomes["first"].info["success"]


async def test_a_fault_is_told_to_its_player_alone_who_goes_on() -> None:
    told = await play(pair_of(), "hello", "[message] hi", "[message] yes")
    assert [agent for agent, _ in told] == ["first", "first", "second"]
    assert told[1][1].startswith("[error] begin your turn")
    assert "error" not in told[2][1]


async def test_the_game_ends_with_the_turns_or_the_errors() -> None:
    pair = pair_of(max_turns=1)
    await play(pair, "[message] a", "[message] b")
    assert await pair.acting() == ()
    assert (await pair.outcomes())["second"].reward == 0.0
    pair = pair_of(max_errors=1)
    await play(pair, "a", "b")
    assert await pair.acting() == ()


async def test_each_seat_is_an_episode_of_its_own(tiny_model: Path, tmp_path: Path) -> None:
    from retrain.compose import compose, make_buffer, make_tasks
    from retrain.config import load_config
    from retrain.engine.scripted import ScriptedEngine
    from retrain.model_files import load_tokenizer

    write_rows(tmp_path / "games.jsonl", [game_row(0, BOARD, "scores")])
    changed = [
        f"model.name_or_path={tiny_model}",
        "model.torch_dtype=float32",
        f"prompt_source.source_config.path={tmp_path / 'games.jsonl'}",
        "environment.env_specific_config.prompt=scores",
        "algorithm.hyperparameters.n_samples_per_prompt=4",
    ]
    config = load_config(CONFIG, changed)
    composition, tokenizer = compose(config), load_tokenizer(config)
    best = write_proposal(best_assignment(BOARD.table), BOARD.names)

    def agree(input_ids: tuple[int, ...], *_: Any) -> str:
        heard = re.findall(r"user\n(.*?)<\|im_end\|>", composition.renderer.decode(input_ids), re.S)
        answer = "[accept]" if "[propose]" in heard[-1] else f"[propose] {best}"
        return f"{answer}<|im_end|>"

    engine = ScriptedEngine(
        agree, encode=lambda text: tokenizer.encode(text, add_special_tokens=False)
    )
    requests = make_buffer(config, make_tasks(config)).draw(1)
    (group,) = await composition.rollouts(engine).collect(requests)
    seats = [(episode.agent, len(episode.turns), episode.reward) for episode in group.trajectories]
    assert seats == [("first", 1, 1.0), ("second", 1, 1.0)] * 2
