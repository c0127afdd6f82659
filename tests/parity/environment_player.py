"""An engine that writes one of given texts, drawn by the turn's seed: moves that mean something."""

from __future__ import annotations

import random
from collections.abc import Sequence

from retrain.engine.base import SamplingParams
from retrain.engine.factory import EngineContext
from retrain.engine.scripted import ScriptedEngine


class Player(ScriptedEngine):
    """A scripted engine that can be closed, as those of a configuration are."""

    def close(self) -> None:
        """Nothing to close."""


def build(context: EngineContext, *, texts: list[str]) -> Player:
    """`rollout.engine: {name: "environment_player:build", texts: […]}`."""
    assert context.encode is not None
    encode = context.encode

    def write(ids: Sequence[int], params: SamplingParams, session: str, seed: int) -> list[int]:
        return [*encode(random.Random(seed).choice(texts) + "<|im_end|>")]

    return Player(write)


def first_free(observation: str) -> str:
    """An opponent in TextArena's tic-tac-toe: the first free field."""
    moves = observation.rpartition("Available Moves")[2]
    return f"[{moves.partition('[')[2][:1]}]"
