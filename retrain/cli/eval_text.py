"""An evaluation for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retrain.report.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from retrain.report.evaluation import Estimate, Evaluation, TaskResult

ROWS = 20
"""Most tasks that are listed on a terminal, and most reasons of failure."""


def print_evaluation(
    title: str, evaluation: Evaluation, metrics: Mapping[str, float], console: Console
) -> None:
    """Print the means, the failures and the tasks, the worst first."""
    _line(one_line(title), console, "bold")
    for line in _facts(evaluation, metrics):
        _line(f"  {line}", console)
    console.print()
    most = ROWS if console.is_terminal else len(evaluation.tasks)
    for number, line in enumerate(_rows(evaluation.tasks[:most])):
        _line(line, console, "bold" if number == 0 else "")
    left_out = len(evaluation.tasks) - most
    if left_out > 0:
        _line(f"… and {left_out} tasks that did better; --json has all", console, "dim")


def _facts(evaluation: Evaluation, metrics: Mapping[str, float]) -> Iterator[str]:
    total = len(evaluation.tasks)
    yield _estimate("reward", evaluation.reward, total)
    yield _estimate("success", evaluation.success, total)
    for k, estimate in evaluation.pass_at.items():
        yield _estimate(f"pass@{k}", estimate, total)
    yield "± is one standard error, between tasks"
    truncated = metrics["rollout/truncated"]
    yield (
        f"{total} tasks, {evaluation.episodes} episodes, {evaluation.failed} failed, "
        f"{truncated:.0f} truncated"
    )
    for reason, count in list(evaluation.failures.items())[:ROWS]:
        yield f"  {count} x {one_line(reason)}"
    tokens, seconds = metrics["rollout/tokens"], metrics["rollout/seconds"]
    yield f"{tokens:,.0f} tokens in {seconds:.1f} s"


def _estimate(name: str, estimate: Estimate | None, total: int) -> str:
    if estimate is None:
        return f"{name:<10} unknown"
    error = "" if estimate.error is None else f" ± {estimate.error:.3f}"
    over = "" if estimate.tasks == total else f"  (over {estimate.tasks} of {total} tasks)"
    return f"{name:<10} {estimate.mean:.3f}{error}{over}"


def _rows(tasks: Sequence[TaskResult]) -> Iterator[str]:
    yield f"{'solved':>9}  {'reward':>8}  {'failed':>6}  task (worst first)"
    for task in tasks:
        reward = "-" if task.reward is None else f"{task.reward:+.3f}"
        solved = f"{task.solved}/{task.attempts}"
        yield f"{solved:>9}  {reward:>8}  {task.failed:>6}  {one_line(task.task_id)}"


def _line(text: str, console: Console, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True, emoji=False)
