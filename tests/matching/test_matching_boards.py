"""Boards: drawn from a seed alone, hard, and scored exactly."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from examples.matching.board import Board, read_board
from examples.matching.drawing import BoardRules, draw_board
from examples.matching.generate import SMALL, draw_games, main
from retrain.errors import ConfigError, DataError

EASY = BoardRules(hardness=0)


def brute_best(board: Board) -> int:
    size = len(board.table)
    return max(
        sum(board.table[r][p] for r, p in enumerate(papers))
        for papers in itertools.permutations(range(size))
    )


def test_the_best_value_is_the_best_of_all_assignments() -> None:
    for seed, size in itertools.product(range(10), (2, 3, 5)):
        board = draw_board(random.Random(seed), BoardRules(size=size, hardness=0))
        assert board.best == brute_best(board)


def test_the_same_seed_draws_the_same_board_and_nothing_global_moves() -> None:
    random.seed(3)
    before = random.getstate()
    boards = [draw_board(random.Random(7), SMALL) for _ in range(2)]
    assert boards[0] == boards[1] != draw_board(random.Random(8), SMALL)
    assert random.getstate() == before


def test_a_game_does_not_depend_on_how_many_are_drawn() -> None:
    assert list(draw_games(3, 5, SMALL)) == list(draw_games(6, 5, SMALL))[:3]


def test_alone_nobody_reaches_the_best_over_the_hardness() -> None:
    for board in draw_games(40, 0, SMALL):
        for player in (0, 1):
            assert board.alone(player) * SMALL.hardness < board.best


def test_cells_are_seen_scaled_and_truncated_or_not_at_all() -> None:
    board = draw_board(random.Random(0), EASY)
    seen = 0
    for player in (0, 1):
        assert 1 <= board.scales[player] <= 10
        scores = board.view(player).scores
        for row, column in itertools.product(range(8), range(8)):
            score = board.table[row][column]
            if board.masks[player][row][column]:
                seen += 1
                assert scores[row][column] == int(board.scales[player] * score)
            else:
                assert scores[row][column] is None
            if not board.masks[0][row][column] and not board.masks[1][row][column]:
                assert score == 50
    assert seen > 0


def test_each_cell_is_seen_with_the_chance_that_was_asked_for() -> None:
    rng = random.Random(0)
    boards = [draw_board(rng, EASY) for _ in range(60)]
    share = sum(sum(map(sum, mask)) for b in boards for mask in b.masks) / (60 * 2 * 64)
    assert 0.37 < share < 0.43


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ({"size": 1}, "size"),
        ({"size": 9}, "size"),
        ({"visible": 0}, "visible"),
        ({"scales": (3, 2)}, "scales"),
        ({"hardness": -1}, "hardness"),
    ],
)
def test_rules_that_cannot_be_are_refused(rules: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: "):
        BoardRules(**rules)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"table": [[1, 2], [3]]}, "'table': expected rows of whole numbers"),
        ({"mask1": None}, "'mask1'"),
        ({"mask2": [[1, 1], [0, 0]]}, "not of one size"),
        ({"scale1": 0}, "'scale1' is 0"),
        ({"best_assignment_reward": 1}, "best_assignment_reward is 1, and the table's"),
        ({"reviewers": ["Ava"]}, "'reviewers': 1 names for 3 rows"),
    ],
)
def test_a_state_that_cannot_be_is_refused(change: dict[str, Any], fault: str) -> None:
    board = draw_board(random.Random(1), SMALL)
    assert read_board("x", json.loads(json.dumps(board.to_json()))) == board
    with pytest.raises(DataError, match=f"game 4: .*{fault}"):
        read_board("game 4", {**board.to_json(), **change})


def test_the_generator_writes_the_same_games_for_the_same_seed(tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        output = str(tmp_path / name)
        main(["--num-games", "2", "--output", output, "--seed", seed])
    written = [(tmp_path / name).read_text() for name in "abc"]
    assert written[0] == written[1] != written[2]
    rows = [json.loads(line) for line in written[0].splitlines()]
    keys = {"prompt", "game_state", "ground_truth", "optimal_score", "game_id"}
    for number, row in enumerate(rows):
        assert set(row) == keys
        assert row["game_id"] == number
        assert row["ground_truth"] == row["game_state"]
        board = read_board("row", row["game_state"])
        assert row["optimal_score"] == board.best
        assert len(board.table) == 8
        scores = board.view(0).scores[0]
        cells = (f"{board.names.paper(n)} {'-' if s is None else s}" for n, s in enumerate(scores))
        assert f"\nAva: {', '.join(cells)}\nDaniel: " in row["prompt"]
