"""What ends a run inside TRL, as one message that says what to do."""

from __future__ import annotations

import traceback
from pathlib import Path

from backends.base import Plan
from backends.trl.advice import gibibytes, what_to_lower
from retrain.engine.transformers_memory import is_out_of_memory
from retrain.errors import BackendFailure
from retrain.launch import Launch


def training_failure(error: Exception, plan: Plan, events: Path) -> BackendFailure:
    """Make the failure to raise.

    Args:
        error: What TRL raised.
        plan: What was run.
        events: The file that holds the traceback; the first process writes it.
    """
    launch = Launch.of()
    if (lost := launch.lost(error)) is not None:
        return BackendFailure(lost)
    reason = f"TRL: {type(error).__name__}: {str(error).strip()}"
    if is_out_of_memory(error):
        peak = plan.memory.get("peak")
        planned = "" if peak is None else f" (the plan reckoned with {gibibytes(peak)})"
        todo = what_to_lower(plan.config, plan.arguments)
        reason = f"{reason}\nthe trainer ran out of memory{planned}: {todo}"
    where = f"traceback in {events}" if launch.first else f"on rank {launch.rank}, {_place(error)}"
    return BackendFailure(f"{reason} ({where})")


def _place(error: Exception) -> str:
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    return f"{innermost.filename}:{innermost.lineno} in {innermost.name}"
