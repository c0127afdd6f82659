"""What ends a run inside a training framework, as one message that says what to do."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from retrain.engine.transformers_memory import is_out_of_memory
from retrain.errors import BackendFailure
from retrain.launch import Launch
from retrain.report.run_folder import EVENTS


def training_failure(
    error: Exception, framework: str, launch: Launch, run: Path, remedy: Callable[[], str]
) -> BackendFailure:
    """Make the failure to raise.

    Args:
        error: What was raised.
        framework: Whose it is, to begin the message with.
        launch: Which process this is.
        run: The run folder; the first process writes the traceback into it.
        remedy: Says what to do where memory ran out, to end the line with.
    """
    if (lost := launch.lost(error)) is not None:
        return BackendFailure(lost)
    reason = f"{framework}: {type(error).__name__}: {str(error).strip()}"
    if is_out_of_memory(error):
        reason = f"{reason}\nthe trainer ran out of memory{remedy()}"
    events = f"traceback in {run / EVENTS}"
    where = events if launch.first else f"on rank {launch.rank}, {_place(error)}"
    return BackendFailure(f"{reason} ({where})")


def _place(error: Exception) -> str:
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    return f"{innermost.filename}:{innermost.lineno} in {innermost.name}"
