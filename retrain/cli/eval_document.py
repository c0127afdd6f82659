"""An evaluation for programs: JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from retrain.report.evaluation import Estimate, Evaluation, TaskResult


def eval_document(evaluation: Evaluation) -> dict[str, Any]:
    """What `retrain eval --json` prints of the results; the tasks stand worst first."""
    return {
        "episodes": evaluation.episodes,
        "failed": evaluation.failed,
        "failures": dict(evaluation.failures),
        "reward": _estimate(evaluation.reward),
        "success": _estimate(evaluation.success),
        "pass_at": {str(k): _estimate(value) for k, value in evaluation.pass_at.items()},
        "tasks": [_task(task) for task in evaluation.tasks],
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def _task(task: TaskResult) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "samples": task.samples,
        "attempts": task.attempts,
        "solved": task.solved,
        "reward": task.reward,
        "failed": task.failed,
        "truncated": task.truncated,
        "pass_at": {str(k): value for k, value in task.pass_at.items()},
    }
