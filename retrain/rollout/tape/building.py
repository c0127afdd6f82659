"""The tape as an engine that a configuration names."""

from __future__ import annotations

from pathlib import Path

from retrain.engine.factory import EngineContext
from retrain.rollout.tape.engine import TapeEngine
from retrain.rollout.tape.reading import Tape


class OpenedTapeEngine(TapeEngine):
    """A `TapeEngine` with the `close` of an engine that a configuration names."""

    def close(self) -> None:
        """Nothing is held."""


def build_tape(context: EngineContext, *, path: str) -> OpenedTapeEngine:
    """Make the engine that answers as a tape's did.

    Args:
        context: The run; the tape needs nothing of it.
        path: The tape.

    Raises:
        DataError: It cannot be read.
    """
    with Tape(Path(path)) as tape:
        return OpenedTapeEngine(tape.groups())
