"""One opened run of the TRL backend: what is loaded, and where it is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backends.base import Plan
from backends.interrupt import GracefulInterrupt
from backends.local.checkpoints import Checkpoint
from backends.recorder import Recorder
from retrain.compose import Composition
from retrain.config import RunConfig
from retrain.launch import Launch


@dataclass(frozen=True, slots=True)
class Session:
    """What a trainer is made from.

    Attributes:
        plan: What to run.
        composition: The bridges.
        model: The loaded model.
        tokenizer: Its tokenizer, with a padding token.
        recorder: Writes the run folder.
        interrupt: Says whether the user asked to stop.
        checkpoint: Where to go on from; None begins.
        launch: Which process this is.
    """

    plan: Plan
    composition: Composition
    model: Any
    tokenizer: Any
    recorder: Recorder
    interrupt: GracefulInterrupt
    checkpoint: Checkpoint | None = None
    launch: Launch = field(default_factory=Launch)

    @property
    def config(self) -> RunConfig:
        """The configuration."""
        return self.plan.config

    @property
    def resume_path(self) -> str | None:
        """The checkpoint's folder, as trainers take it."""
        return None if self.checkpoint is None else str(self.checkpoint.path)
