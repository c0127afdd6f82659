"""What ends a run inside TRL, as one message that says what to do."""

from __future__ import annotations

from backends.base import Plan
from backends.local import failures
from backends.local.advice import after_running_out
from backends.trl.advice import what_to_lower
from retrain.errors import BackendFailure
from retrain.launch import Launch


def training_failure(error: Exception, plan: Plan) -> BackendFailure:
    """Make the failure to raise.

    Args:
        error: What TRL raised.
        plan: What was run.
    """

    def remedy() -> str:
        todo = what_to_lower(plan.config, plan.arguments)
        return after_running_out(plan.memory.get("peak"), todo)

    return failures.training_failure(error, "TRL", Launch.of(), plan.config.output_dir, remedy)
