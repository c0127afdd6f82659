"""What an evaluation came to: mean reward, success and pass@k with errors, task by task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from retrain.report.attempts import SUCCESS_REWARD, attempts_by_task
from retrain.report.pass_at_k import pass_at_k, reported_ks
from retrain.sample import Status
from retrain.types import Group


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks.

    Attributes:
        mean: The mean of the tasks' own means.
        error: Its standard error, s / sqrt(tasks), where s is the sample standard deviation between
            tasks; None for one task. Samples of one task are not independent, so tasks are the
            unit (Miller, 2024, "Adding Error Bars to Evals", section 2.2).
        tasks: How many tasks it is over.
    """

    mean: float
    error: float | None
    tasks: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate | None:
        """Estimate from one value per task; None where there is no value."""
        if not values:
            return None
        error = stdev(values) / sqrt(len(values)) if len(values) > 1 else None
        return cls(fmean(values), error, len(values))


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task of an evaluation.

    Attributes:
        task_id: Which task.
        samples: Episodes played.
        attempts: Episodes that count: those that finished with a known outcome.
        solved: How many of them solved the task.
        reward: Mean reward where it is known; None where it is known of no episode.
        failed: Episodes that failed.
        truncated: Episodes that a limit cut short.
        pass_at: k -> pass@k, for the reported k up to `attempts`.
    """

    task_id: str
    samples: int
    attempts: int
    solved: int
    reward: float | None
    failed: int
    truncated: int
    pass_at: Mapping[int, float]

    @property
    def badness(self) -> tuple[float, float, str]:
        """Sorts the worst task first; one without a result is the worst."""
        share = self.solved / self.attempts if self.attempts else -1.0
        return share, -float("inf") if self.reward is None else self.reward, self.task_id


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation came to.

    Attributes:
        reward: Mean reward.
        success: Share of attempts that solved their task.
        pass_at: k -> pass@k over the tasks that have at least k attempts.
        failures: Reason of failure -> how many episodes, most frequent first.
        tasks: The results, worst first.
    """

    reward: Estimate | None
    success: Estimate | None
    pass_at: Mapping[int, Estimate]
    failures: Mapping[str, int]
    tasks: tuple[TaskResult, ...]

    @property
    def episodes(self) -> int:
        """Episodes played, failed ones included."""
        return sum(task.samples for task in self.tasks)

    @property
    def failed(self) -> int:
        """Episodes that failed."""
        return sum(task.failed for task in self.tasks)


def evaluate(groups: Sequence[Group], *, threshold: float = SUCCESS_REWARD) -> Evaluation:
    """Sum up the episodes of an evaluation.

    Failed episodes are counted, and leave every mean: a failure of infrastructure is no reward
    of 0 and no attempt at the task.

    Args:
        groups: One per task.
        threshold: The least reward of a solved task, where the environment reports no success.
    """
    attempts = attempts_by_task(groups, threshold=threshold)
    tasks = [_task(group, verdicts) for group, verdicts in zip(groups, attempts, strict=True)]
    return Evaluation(
        reward=Estimate.of([task.reward for task in tasks if task.reward is not None]),
        success=Estimate.of([task.solved / task.attempts for task in tasks if task.attempts]),
        pass_at=_pass_at(tasks),
        failures=_failures(groups),
        tasks=tuple(sorted(tasks, key=lambda task: task.badness)),
    )


def pass_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """`pass@K` by name, where tasks have several episodes; empty where they have one."""
    if all(len(group.trajectories) < 2 for group in groups):
        return {}
    return {f"pass@{k}": estimate.mean for k, estimate in evaluate(groups).pass_at.items()}


def _task(group: Group, verdicts: Sequence[bool]) -> TaskResult:
    episodes = group.trajectories
    rewards = [e.reward for e in episodes if e.valid and e.reward is not None]
    statuses = Counter(episode.status for episode in episodes)
    ks = [k for k in reported_ks(len(episodes)) if k <= len(verdicts)]
    return TaskResult(
        task_id=group.task.id,
        samples=len(episodes),
        attempts=len(verdicts),
        solved=sum(verdicts),
        reward=fmean(rewards) if rewards else None,
        failed=statuses[Status.FAILED],
        truncated=statuses[Status.TRUNCATED],
        pass_at={k: pass_at_k(len(verdicts), sum(verdicts), k) for k in ks},
    )


def _pass_at(tasks: Sequence[TaskResult]) -> dict[int, Estimate]:
    ks = sorted({k for task in tasks for k in task.pass_at})
    estimates = ((k, Estimate.of([t.pass_at[k] for t in tasks if k in t.pass_at])) for k in ks)
    return {k: estimate for k, estimate in estimates if estimate is not None}


def _failures(groups: Sequence[Group]) -> dict[str, int]:
    errors = (t.error for g in groups for t in g.trajectories if t.status is Status.FAILED)
    reasons = Counter(f"{e.boundary}: {e.reason}" if e else "unknown" for e in errors)
    return dict(reasons.most_common())
