"""The slime backend: Megatron trains, SGLang generates, on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.base import Plan, Problem
from retrain.config import RunConfig
from retrain.errors import MissingDependency
from retrain.parity import LossReading, Recorded
from retrain.report.result import RunResult


class SlimeBackend:
    """Trains with slime's `train.py`, in processes of its own."""

    name = "slime"

    def check(self) -> list[Problem]:
        """Say what is missing on this machine; planning needs none of it."""
        from backends.slime.cluster_check import cluster_problems
        from backends.slime.installation import check_installation

        return [*check_installation(), *cluster_problems()]

    def plan(self, config: RunConfig) -> Plan:
        """Say exactly what slime will receive; runs where slime is not installed."""
        from backends.slime.planning import make_plan

        return make_plan(config)

    def defaults(self, plan: Plan) -> Mapping[str, Any]:
        """The defaults of slime's options; see `KnowsDefaults`."""
        from backends.slime.defaults import defaults

        return defaults(plan)

    def train(self, plan: Plan, *, resume: bool = False) -> RunResult:
        """Train a plan to its end, or until Ctrl-C; see `Backend.train`."""
        from backends.slime.installation import Installation

        plan.require_runnable()
        blocking = Installation.of().blocking(plan.config, os.environ)
        if blocking:
            raise MissingDependency("\n".join(str(problem) for problem in blocking))
        from backends.slime.running import run_plan

        return run_plan(plan, resume=resume)

    def export(self, run: Path, to: Path) -> Path:
        """Write the newest Hugging Face weights of a run."""
        from backends.slime.exporting import export_run

        return export_run(run, to)

    def read_loss(self, recorded: Recorded) -> LossReading:
        """Tell what enters the loss; see `ReadsLoss`. slime need not be installed."""
        from backends.slime.parity import read_loss

        return read_loss(recorded)
