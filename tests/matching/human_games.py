"""The 67 games that people played, and what our rules make of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.matching.board import Board, read_board

FILE = Path(__file__).parents[2].parent / "shared" / "data" / "dialop_games.jsonl"

needs_human_games = pytest.mark.skipif(
    not FILE.is_file(), reason="the games are not part of the repository: ../shared/data"
)

OTHER_PEOPLE = 16
"""The one game with reviewers of other names."""


def human_games() -> list[dict[str, Any]]:
    """The recorded games, in the file's order."""
    if not FILE.is_file():
        return []
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def board_of(number: int, game: dict[str, Any]) -> Board:
    """The board, with the names that the game itself used."""
    return read_board(f"game {number}", {**game, "reviewers": list(people_of(game))})


def people_of(game: dict[str, Any]) -> Iterator[str]:
    """The reviewers' names in the order of their indices, from the game's first proposal."""
    first = next(entry for entry in game["action_log"] if entry["type"] == "proposal")
    lines = re.findall(r"- (\w+): ([\w ]+)", first["proposal"])
    reviewer_of = dict(lines)
    papers = ("BLEU", "Electra", "GloVe", "GLUE", "LLaMA", "RoBERTa", "QuAC", "SWAG")
    for _, paper in sorted(first["proposal_ids"]):
        yield reviewer_of[papers[paper]]


def written(entry: dict[str, Any]) -> str:
    """What a log's entry is as a turn of ours, tag and all."""
    if entry["type"] == "proposal":
        return f"[propose] {entry['proposal']}"
    if entry["type"] == "message":
        return f"[message] {entry['message']['data']}"
    return "[accept]" if entry["response"]["accept"] else "[reject]"
