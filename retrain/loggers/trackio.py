"""trackio: a local dashboard, and optionally a Hugging Face Space."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

from retrain.loggers.base import LoggedRun, finite
from retrain.report.metrics import MetricRow


class TrackioLogger:
    """Writes every row into a run of trackio; the step is the iteration.

    trackio keeps its projects in a folder of its own (`$TRACKIO_DIR`); `trackio show` shows them.
    """

    def __init__(self, run: LoggedRun, *, project: str, space_id: str | None = None) -> None:
        """Begin or go on.

        Args:
            run: The run; its id ends the name under which trackio knows it.
            project: The project.
            space_id: A Space to send the rows to; None keeps them on this machine.
        """
        import trackio

        with redirect_stdout(sys.stderr):
            self._run: Any = trackio.init(
                project=project,
                name=f"{run.name} {run.id}",
                group=run.group,
                space_id=space_id,
                config=dict(run.config),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        if not run.resumed:
            for row in run.earlier:
                self.write(row)

    def write(self, row: MetricRow) -> None:
        """Write a row."""
        self._run.log(finite(row), step=row.iteration)

    def close(self, *, ended_well: bool) -> None:
        """Wait until every row has arrived."""
        with redirect_stdout(sys.stderr):
            self._run.finish()
