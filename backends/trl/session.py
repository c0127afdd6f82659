"""One opened run of the TRL backend: what is loaded, and where it is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backends.base import Plan
from backends.recorder import RunRecorder
from backends.trl.checkpoints import Checkpoint
from retrain.compose import Composition
from retrain.config import RunConfig


@dataclass(frozen=True, slots=True)
class Session:
    """What a trainer is made from.

    Attributes:
        plan: What to run.
        composition: The bridges.
        model: The loaded model.
        tokenizer: Its tokenizer, with a padding token.
        recorder: Writes the run folder.
        checkpoint: Where to go on from; None begins.
    """

    plan: Plan
    composition: Composition
    model: Any
    tokenizer: Any
    recorder: RunRecorder
    checkpoint: Checkpoint | None = None

    @property
    def config(self) -> RunConfig:
        """The configuration."""
        return self.plan.config

    @property
    def resume_path(self) -> str | None:
        """The checkpoint's folder, as trainers take it."""
        return None if self.checkpoint is None else str(self.checkpoint.path)

    def announce_stop(self) -> None:
        """Tell the user what a first Ctrl-C does."""
        self.recorder.progress.note(
            "stopping after this iteration, with a checkpoint; press Ctrl-C again to stop now"
        )
