"""The environment: the kit's promises, and a game played through to each of its ends."""

from __future__ import annotations

import itertools
from random import Random
from statistics import fmean
from typing import Any

import pytest

from examples.matching.asker import Asker, write_proposal
from examples.matching.board import Board
from examples.matching.drawing import draw_board
from examples.matching.environment import MatchingEnvironment
from examples.matching.generate import SMALL, game_row
from examples.matching.messages import Said
from examples.matching.partner import Partner
from examples.matching.rewards import questions
from retrain.errors import ConfigError, DataError, EnvironmentFailure
from retrain.testing import EnvironmentSuite, RewardSuite
from retrain.types import Action, StepResult, Task

BOARD = draw_board(Random(5), SMALL)
NAMES = BOARD.names


def task_of(board: Board) -> Task:
    return Task("t", "scores", metadata=game_row(0, board, "scores"))


class TestMatching(EnvironmentSuite):
    answer = "[message] Ava on BLEU?"
    task = task_of(BOARD)
    other_task = task_of(draw_board(Random(6), SMALL))

    def make_environment(self) -> MatchingEnvironment:
        return MatchingEnvironment(max_turns=6)


@pytest.mark.soak
class TestDrawnMatching(EnvironmentSuite):
    """The board comes from the seed."""

    answer = "[propose] Ava: BLEU"

    def make_environment(self) -> MatchingEnvironment:
        board = {"size": 3, "highest": 9, "unseen": 5}
        return MatchingEnvironment(max_turns=6, max_errors=1, board=board)


class TestQuestionCounts(RewardSuite):
    def make_reward(self) -> Any:
        return questions


class Yielding(Partner):
    """Says what it is told to; records what it hears."""

    def __init__(self, *, says: list[str]) -> None:
        self._says = iter(says)
        self.heard: list[Said] = []

    async def begin(self, view: Any, seed: int) -> None:
        self.view = view

    async def answer(self, heard: Said) -> str:
        self.heard.append(heard)
        return next(self._says)

    async def mend(self, fault: str) -> str:
        self.heard.append(Said(self.heard[-1].tag, fault))
        return next(self._says)


class Stubborn(Yielding):
    mend = Partner.mend


def against(*says: str, cls: str = "Yielding", **settings: Any) -> MatchingEnvironment:
    config = {"says": list(says)}
    return MatchingEnvironment(partner=f"{__name__}:{cls}", partner_config=config, **settings)


async def play(environment: MatchingEnvironment, *texts: str) -> list[StepResult]:
    await environment.reset(task_of(BOARD), 0)
    return [await environment.step(Action(text)) for text in texts]


def replies(results: list[StepResult]) -> list[str]:
    return [" ".join(m.content for m in result.observation.messages) for result in results]


ASSIGNMENTS = tuple(itertools.permutations(range(3)))


@pytest.mark.parametrize("papers", ASSIGNMENTS)
async def test_an_accepted_proposal_pays_its_share_of_the_best(papers: tuple[int, ...]) -> None:
    proposal = f"[propose] {write_proposal(papers, NAMES)}"
    (result,) = await play(against("[accept]"), proposal)
    assert result.terminated and not result.truncated
    assert result.observation.messages == ()
    assert result.reward == BOARD.value(papers) / BOARD.best
    assert result.info["success"] == (BOARD.value(papers) == BOARD.best)


async def test_the_model_can_accept_what_its_partner_proposes() -> None:
    proposal = f"[propose] {write_proposal(ASSIGNMENTS[2], NAMES)}"
    results = await play(against(proposal), "[message] Hi", "[message] Why?", "[accept]")
    assert replies(results)[0] == proposal
    assert "answer the proposal first" in replies(results)[1]
    assert results[-1].terminated
    assert results[-1].reward == BOARD.value(ASSIGNMENTS[2]) / BOARD.best


async def test_a_fault_is_told_and_costs_a_turn_and_the_partner_hears_nothing() -> None:
    environment = against("[message] ok", max_errors=2)
    results = await play(environment, "hello", "[propose] Ava: BLEU", "[message] hi", "[accept]")
    assert [result.terminated for result in results] == [False, False, False, True]
    assert replies(results)[1].startswith("[error] reviewer missing: Daniel, Sofia; paper missing")
    assert [str(said) for said in environment._partner.heard] == ["[message] hi"]
    assert [result.info["errors"] for result in results] == [1, 2, 2, 3]
    assert results[-1].reward == 0.0


async def test_the_last_turn_cuts_the_game() -> None:
    results = await play(against("[message] a", "[message] b", max_turns=2), *["[message] x"] * 2)
    assert [result.truncated for result in results] == [False, True]
    assert results[-1].reward == 0.0 and not results[-1].info["agreed"]


async def test_a_turn_that_was_cut_off_is_not_heard() -> None:
    environment = against("[message] a")
    await environment.reset(task_of(BOARD), 0)
    result = await environment.step(Action("[message] I was about", truncated=True))
    assert "cut off" in result.observation.messages[0].content
    assert environment._partner.heard == []


async def test_a_partner_may_mend_its_turn_and_then_fails_as_the_environment() -> None:
    environment = against("what?", "[accept]", "[message] sorry")
    results = await play(environment, "[message] hi")
    assert replies(results) == ["[message] sorry"]
    assert [said.text for said in environment._partner.heard][1:] == [
        "begin your turn with one of [message], [propose], [accept], [reject]",
        "there is no proposal to accept",
    ]
    with pytest.raises(EnvironmentFailure, match="keeps breaking the rules"):
        await play(against("a", "b", "c"), "[message] hi")
    with pytest.raises(EnvironmentFailure, match="broke a rule: begin your turn"):
        await play(against("a", cls="Stubborn"), "[message] hi")


async def test_the_model_sees_its_own_scores_and_the_partner_only_the_others() -> None:
    environment = against("[message] a")
    observation = await environment.reset(Task("x", ""), 3)
    text = observation.messages[0].content
    board = environment.game.board
    assert len(board.table) == 8
    assert environment._partner.view == board.view(1) != board.view(0)
    for reviewer, row in enumerate(board.view(0).scores):
        name = f"{board.names.reviewer(reviewer)}: "
        (line,) = (one for one in text.splitlines() if one.startswith(name))
        cells = [cell.split()[-1] for cell in line.split(", ")]
        assert cells == ["-" if score is None else str(score) for score in row]


async def test_questions_are_counted_turn_by_turn() -> None:
    environment = against(*["[message] hm"] * 3)
    results = await play(environment, "[message] Ava on BLEU?", "[message] Who? And why?", "oh?")
    assert [result.info["questions"] for result in results] == [1, 2, 0]
    assert [result.info["pair_questions"] for result in results] == [1, 0, 0]


async def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown partner 'scriptd'"):
        MatchingEnvironment(partner="scriptd")
    with pytest.raises(ConfigError, match=r"partner_config\.demnd"):
        MatchingEnvironment(partner_config={"demnd": 1})
    with pytest.raises(ConfigError, match="size: 12"):
        MatchingEnvironment(board={"size": 12})
    with pytest.raises(DataError, match="task t: game_state: 'table'"):
        await MatchingEnvironment().reset(Task("t", "x", metadata={"game_state": {}}), 0)


async def paid_for(asked: int, boards: list[Board]) -> float:
    """What a player earns on average that begins with so many questions."""
    paid = []
    for seed, board in enumerate(boards):
        environment = MatchingEnvironment(max_turns=8, partner_config={"demand": 0.6})
        await environment.reset(task_of(board), seed)
        player, heard, result = Asker(board.view(0), asked, 5), None, None
        while result is None or not (result.terminated or result.truncated):
            result = await environment.step(Action(player.turn(heard)))
            heard = "".join(message.content for message in result.observation.messages)
        paid.append(result.reward)
    return fmean(paid)


async def test_every_question_is_worth_something() -> None:
    boards = [draw_board(Random(seed), SMALL) for seed in range(60)]
    paid = [await paid_for(asked, boards) for asked in (0, 2, 5)]
    assert paid[0] + 0.06 < paid[1] < paid[2] - 0.06
