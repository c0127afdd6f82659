from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.matching.generate import SMALL, draw_games, game_row


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose tokenizer has seen the game; its weights are random."""
    pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[engine]'")
    from retrain.small_model import make_small_model

    words = [game_row(0, board, "scores")["prompt"] for board in draw_games(5, 77, SMALL)]
    folder = tmp_path_factory.mktemp("matching_model")
    make_small_model(folder, [*words, "[message] Ava on BLEU?", "[propose] Ava: BLEU"])
    return folder


@pytest.fixture
def serve() -> Iterator[Any]:
    """Starts servers that score, and closes them after the test."""
    from scoring_server import scoring_servers

    with scoring_servers() as start:
        yield start
