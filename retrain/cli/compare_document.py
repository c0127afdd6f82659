"""A comparison of backends for programs: JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from retrain.cli.sizes import explained_sizes
from retrain.comparison import Column, Comparison, Row
from retrain.comparison.rows import told

if TYPE_CHECKING:
    from backends.base import Problem


def compare_document(experiment_name: str, found: Sequence[Comparison]) -> dict[str, Any]:
    """What `retrain plan --compare --json` prints; without stages, one stage without a name."""
    return {"experiment_name": experiment_name, "stages": [_stage(stage) for stage in found]}


def _stage(found: Comparison) -> dict[str, Any]:
    return {
        "name": found.stage,
        "backends": [_backend(column) for column in found.columns],
        "keys": [_row(row, found.columns) for row in found.rows],
    }


def _backend(column: Column) -> dict[str, Any]:
    plan = column.plan
    return {
        "backend": column.backend,
        "absent": column.absent,
        "refused": column.refused,
        "entry": "" if plan is None else plan.entry,
        "sizes": {} if plan is None else dict(plan.sizes),
        "arithmetic": {} if plan is None else explained_sizes(plan),
        "problems": [] if plan is None else [_problem(problem) for problem in plan.problems],
        "fixed": [asdict(one) for one in told(column, column.fixed)],
    }


def _row(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    cells = zip(columns, row.cells, strict=True)
    return {
        "key": row.key,
        "value": row.value,
        "given": row.given,
        "means": row.meaning,
        "standing": str(row.standing),
        "told": {column.backend: asdict(cell) for column, cell in cells},
    }


def _problem(problem: Problem) -> dict[str, str]:
    return {
        "key": problem.key,
        "message": problem.message,
        "severity": str(problem.severity),
    }
