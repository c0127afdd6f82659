"""The games that people played: our scorer pays what was paid, our parser reads what was said."""

from __future__ import annotations

from collections import Counter

import pytest
from human_games import OTHER_PEOPLE, board_of, human_games, needs_human_games, people_of, written

from examples.matching.board import read_board
from examples.matching.game import MatchingGame
from examples.matching.messages import IllegalMove
from examples.matching.names import REVIEWERS
from examples.matching.proposal import parse_proposal
from examples.matching.questions import count_questions

pytestmark = needs_human_games
GAMES = human_games()


def test_the_score_and_the_best_score_are_those_that_were_paid() -> None:
    assert len(GAMES) == 67
    for number, game in enumerate(GAMES):
        board = board_of(number, game)
        assert board.best == game["best_assignment_reward"] == game["result"]["best"]
        played = MatchingGame(board)
        for entry in game["action_log"]:
            played.say(entry["player"], written(entry))
        assert played.accepted is not None
        assert board.value(played.accepted) == game["proposal_reward"]
        assert played.reward == pytest.approx(game["result"]["norm"])


def test_every_proposal_parses_to_the_recorded_indices() -> None:
    read = 0
    for number, game in enumerate(GAMES):
        names = board_of(number, game).names
        for entry in game["action_log"]:
            if entry["type"] == "proposal":
                ids = dict(entry["proposal_ids"])
                expected = tuple(ids[reviewer] for reviewer in range(8))
                assert parse_proposal(entry["proposal"], names) == expected
                read += 1
    assert read == 106


def test_with_the_usual_names_only_the_game_of_other_people_is_refused() -> None:
    outcome: Counter[str] = Counter()
    for number, game in enumerate(GAMES):
        names = read_board(f"game {number}", game).names
        for entry in game["action_log"]:
            if entry["type"] != "proposal":
                continue
            try:
                parse_proposal(entry["proposal"], names)
                outcome["read"] += 1
            except IllegalMove as fault:
                assert number == OTHER_PEOPLE
                assert "Alexander Hill" in str(fault) and "Ava, Daniel, Sofia" in str(fault)
                outcome["refused"] += 1
    assert outcome == {"read": 103, "refused": 3}
    others = [n for n, game in enumerate(GAMES) if tuple(people_of(game)) != REVIEWERS]
    assert others == [OTHER_PEOPLE]


def test_every_turn_of_theirs_is_a_legal_turn_of_ours() -> None:
    turns: Counter[str] = Counter()
    for number, game in enumerate(GAMES):
        played = MatchingGame(board_of(number, game))
        for entry in game["action_log"]:
            turns[played.say(entry["player"], written(entry)).tag] += 1
    assert turns == {"message": 786, "propose": 106, "accept": 67, "reject": 36}


def test_nearly_all_their_boards_are_hard_by_our_rule() -> None:
    boards = [board_of(number, game) for number, game in enumerate(GAMES)]
    hard = [all(board.alone(p) * 1.25 < board.best for p in (0, 1)) for board in boards]
    assert sum(hard) == 64, "three of the recorded boards are easier than the rule allows"


def test_people_ask() -> None:
    asked = [
        sum(
            count_questions(entry["message"]["data"], board_of(number, game).names).asked
            for entry in game["action_log"]
            if entry["type"] == "message"
        )
        for number, game in enumerate(GAMES)
    ]
    assert 200 < sum(asked) < 500 and sum(n > 0 for n in asked) > 50
