"""The TRL backend: one process, one machine."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.base import Plan, Problem, Severity
from retrain.config import RunConfig
from retrain.errors import MissingDependency
from retrain.launch import Launch
from retrain.parity import LossReading, Recorded
from retrain.report.result import RunResult

if TYPE_CHECKING:
    from backends.local.outline import Outlines

TESTED = "1.16.0"
"""The TRL release whose private methods the trainer extends."""

INSTALL = "pip install 'retrain[trl]'"


class TRLBackend:
    """Trains with TRL's `GRPOTrainer` and `SFTTrainer`, in this process."""

    name = "trl"

    def __init__(self) -> None:
        """Make a backend; what its plans read of a model is kept from one plan to the next."""
        self._outlines: Outlines | None = None

    def check(self) -> list[Problem]:
        """Say what is missing on this machine."""
        missing = [name for name in ("torch", "transformers", "trl") if find_spec(name) is None]
        if missing:
            return [Problem("", f"{', '.join(missing)} is not installed; {INSTALL}")]
        try:
            found = version("trl")
        except PackageNotFoundError:
            return [Problem("", f"trl is importable but not installed; {INSTALL}")]
        if found == TESTED:
            return []
        message = f"trl {found} is installed; tested with {TESTED} (pip install trl=={TESTED})"
        return [Problem("", message, Severity.WARNING)]

    def plan(self, config: RunConfig) -> Plan:
        """Say exactly what TRL will receive."""
        self._require_packages()
        from backends.trl.quiet import quiet_frameworks

        with quiet_frameworks():
            from backends.local.outline import Outlines
            from backends.trl.planning import make_plan

            self._outlines = self._outlines or Outlines()
            return make_plan(config, self._outlines)

    def defaults(self, plan: Plan) -> Mapping[str, Any]:
        """TRL's own defaults; see `KnowsDefaults`."""
        from backends.trl.defaults import defaults

        return defaults(plan)

    def train(self, plan: Plan, *, resume: bool = False) -> RunResult:
        """Train a plan to its end, or until Ctrl-C; see `Backend.train`."""
        self._require_packages()
        plan.require_runnable()
        from backends.trl.quiet import quiet_frameworks

        with quiet_frameworks():
            from backends.trl.running import run_plan

            return run_plan(plan, resume=resume, launch=Launch.of())

    def export(self, run: Path, to: Path) -> Path:
        """Write the newest Hugging Face weights of a run; adapters are merged into their base."""
        self._require_packages()
        from backends.trl.exporting import export_run

        return export_run(run, to)

    def read_loss(self, recorded: Recorded) -> LossReading:
        """Tell what enters the loss; see `ReadsLoss`."""
        self._require_packages()
        from backends.trl.quiet import quiet_frameworks

        with quiet_frameworks():
            from backends.trl.parity import read_loss

            return read_loss(recorded)

    def _require_packages(self) -> None:
        errors = [problem for problem in self.check() if problem.severity is Severity.ERROR]
        if errors:
            raise MissingDependency(str(errors[0]))
