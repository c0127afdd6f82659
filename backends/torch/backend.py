"""The torch backend: the native loop, in this process or over several."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from backends.base import Plan, Problem
from retrain.config import RunConfig
from retrain.errors import MissingDependency
from retrain.launch import Launch
from retrain.parity import LossReading, Recorded
from retrain.report.result import RunResult

if TYPE_CHECKING:
    from backends.local.outline import Outlines

INSTALL = "pip install 'retrain[torch]'"


class TorchBackend:
    """Trains with a loop of its own over torch and transformers."""

    name = "torch"

    def __init__(self) -> None:
        """Make a backend; what its plans read of a model is kept from one plan to the next."""
        self._outlines: Outlines | None = None

    def check(self) -> list[Problem]:
        """Say what is missing on this machine."""
        missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
        if not missing:
            return []
        return [Problem("", f"{', '.join(missing)} is not installed; {INSTALL}")]

    def plan(self, config: RunConfig) -> Plan:
        """Say exactly what the loop will receive."""
        self._require_packages()
        from backends.local.outline import Outlines
        from backends.torch.run.planning import make_plan

        self._outlines = self._outlines or Outlines()
        return make_plan(config, self._outlines)

    def train(self, plan: Plan, *, resume: bool = False) -> RunResult:
        """Train a plan to its end, or until Ctrl-C; see `Backend.train`."""
        self._require_packages()
        plan.require_runnable()
        from backends.torch.run.running import run_plan

        return run_plan(plan, resume=resume, launch=Launch.of())

    def export(self, run: Path, to: Path) -> Path:
        """Write the newest Hugging Face weights of a run; adapters are merged into their base."""
        self._require_packages()
        from backends.local.exporting import export_weights
        from backends.torch.saving.checkpoint_state import newest_checkpoint
        from retrain.report.run_folder import CHECKPOINTS

        newest = newest_checkpoint(run / CHECKPOINTS)
        return export_weights(run, None if newest is None else newest.path, to)

    def read_loss(self, recorded: Recorded) -> LossReading:
        """Tell what enters the loss; see `ReadsLoss`."""
        self._require_packages()
        from backends.torch.parity import read_loss

        return read_loss(recorded)

    def _require_packages(self) -> None:
        problems = self.check()
        if problems:
            raise MissingDependency(str(problems[0]))
