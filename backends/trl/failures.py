"""What ends a run inside TRL, as one message that says what to do."""

from __future__ import annotations

from pathlib import Path

from backends.base import Plan
from backends.trl.advice import gibibytes, what_to_lower
from retrain.engine.transformers_memory import is_out_of_memory
from retrain.errors import BackendFailure


def training_failure(error: Exception, plan: Plan, events: Path) -> BackendFailure:
    """Make the failure to raise.

    Args:
        error: What TRL raised.
        plan: What was run.
        events: The file that holds the traceback.
    """
    reason = f"TRL: {type(error).__name__}: {str(error).strip()}"
    if is_out_of_memory(error):
        peak = plan.memory.get("peak")
        planned = "" if peak is None else f" (the plan reckoned with {gibibytes(peak)})"
        todo = what_to_lower(plan.config, plan.arguments)
        reason = f"{reason}\nthe trainer ran out of memory{planned}: {todo}"
    return BackendFailure(f"{reason} (traceback in {events})")
