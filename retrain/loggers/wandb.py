"""Weights & Biases, online or offline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from retrain.loggers.base import LoggedRun, LoggerFailure, finite
from retrain.report.metrics import ITERATION, MetricRow


class WandbLogger:
    """Writes every row into a run of Weights & Biases, with the iteration as the axis.

    Its files lie in the run folder, `wandb/`. A run that is resumed goes on under its old id.
    """

    def __init__(
        self,
        run: LoggedRun,
        *,
        project: str,
        entity: str | None = None,
        tags: Sequence[str] = (),
        mode: str = "auto",
    ) -> None:
        """Begin or go on.

        Args:
            run: The run.
            project: The project.
            entity: The user or team; None takes the account's own.
            tags: The run's tags.
            mode: "online", "offline", or "auto": what $WANDB_MODE says, else online where an
                account is known to this machine and offline where none is, which asks nobody.
        """
        import wandb

        self._run: Any = wandb.init(
            project=project,
            entity=entity,
            tags=list(tags) or None,
            id=run.id,
            name=run.name,
            group=run.group,
            config=dict(run.config),
            dir=str(run.path),
            resume="allow",
            mode=_mode(mode, run),
            settings=wandb.Settings(console="off", silent=True),
        )
        self._run.define_metric(ITERATION)
        self._run.define_metric("*", step_metric=ITERATION)
        if not run.resumed:
            for row in run.earlier:
                self.write(row)

    def write(self, row: MetricRow) -> None:
        """Write a row."""
        self._run.log({**finite(row), ITERATION: row.iteration})

    def close(self, *, ended_well: bool) -> None:
        """Send what is left; the run counts as failed where it failed."""
        self._run.finish(exit_code=0 if ended_well else 1)


def _mode(asked: str, run: LoggedRun) -> Any:
    """The mode to begin in; wandb would ask on the terminal for an account that is not there."""
    wanted = os.environ.get("WANDB_MODE", "") if asked == "auto" else asked
    if wanted not in ("", "online"):
        return wanted
    obstacle = _obstacle()
    if obstacle is None:
        return "online"
    if wanted == "online":
        raise LoggerFailure(f"{obstacle}; or choose loggers.wandb.mode: offline")
    run.note(
        f"logger wandb: {obstacle}; until then the rows are kept offline, send them with: "
        f"wandb sync {run.path / 'wandb'}/offline-run-*-{run.id}"
    )
    return "offline"


def _obstacle() -> str | None:
    """Why nothing can be sent; None where an account is known and answers."""
    import wandb

    try:
        known = wandb.login(prompt=False)
    except wandb.Error as error:
        return f"Weights & Biases cannot be reached: {str(error).splitlines()[0]}"
    return None if known else "no account is known here: run wandb login, or set WANDB_API_KEY"
