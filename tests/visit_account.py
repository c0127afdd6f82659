"""Where every visit of an over-sampled run is, read from what the run left on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples

Visit = tuple[str, int]
"""(task, how often it was drawn before)."""


@dataclass(frozen=True, slots=True)
class Account:
    """The visits of the lineage of weights that is kept.

    Attributes:
        iterations: How many there are.
        drawn: How many visits were drawn.
        trained: How often each was trained on.
        dropped: How many the filter dropped, by reason; for a batch that is collected ahead too.
        failed: How many failed and gave way to another task.
        unfinished: How many were given up half played.
        pending: Those that are half played or to be begun.
        finished: Those that are played and wait for a batch.
        recorded: Episodes of pending ones that are on disk, half played or over.
        continued: How many episodes went on from their record after a restart.
    """

    iterations: int
    drawn: int
    trained: Counter[Visit]
    dropped: Counter[str]
    failed: int
    unfinished: int
    pending: tuple[Visit, ...]
    finished: tuple[Visit, ...]
    recorded: int
    continued: int

    @classmethod
    def of(
        cls, run: Path, iterations: int, drawn: Mapping[str, Any], rollout: Mapping[str, Any]
    ) -> Account:
        """Read a run, ended or killed, as it stands in its newest checkpoint.

        Args:
            run: Its folder.
            iterations: How many iterations the checkpoint holds.
            drawn: The state of the `DataBuffer` in it.
            rollout: That of the `RolloutManager`.
        """
        rows = [r for r in read_metrics(run / "metrics.jsonl") if "rollout/dropped" in r.values]
        rows = [row for row in rows if row.iteration <= iterations]
        assert [row.iteration for row in rows] == list(range(1, iterations + 1))
        totals: Counter[str] = Counter()
        for row in rows:
            totals.update({name: int(value or 0) for name, value in row.values.items()})
        prefix = "rollout/dropped/"
        dropped = {n.removeprefix(prefix): c for n, c in totals.items() if n.startswith(prefix)}
        assert sum(dropped.values()) == totals["rollout/dropped"]
        counted = rollout["counted"]
        ahead = sum((Counter(row["dropped"]) for row in counted), Counter())
        return cls(
            iterations=iterations,
            drawn=drawn["drawn"],
            trained=_trained(run, iterations),
            dropped=Counter(dropped) + ahead,
            failed=totals["rollout/replaced"] + sum(row["replaced"] for row in counted),
            unfinished=totals["rollout/unfinished"] + sum(row["unfinished"] for row in counted),
            pending=tuple((row["task"], row["visit"]) for row in rollout["pending"]),
            finished=tuple(_visit(row["group"]) for row in rollout["finished"]),
            recorded=sum(len(row["records"]) for row in rollout["pending"]),
            continued=totals["rollout/continued"],
        )

    def require_balanced(self, batch: int) -> None:
        """Each visit is in one place only, and those of all places are as many as were drawn."""
        left = [*self.pending, *self.finished]
        assert set(self.trained.values()) == {1}
        assert self.trained.total() == self.iterations * batch
        assert len(set(left)) == len(left) and not self.trained.keys() & set(left)
        gone = self.dropped.total() + self.failed + self.unfinished
        assert self.drawn == self.trained.total() + gone + len(left)

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.dropped.items()))
        return (
            f"{self.iterations} iterations, {self.drawn} visits drawn = "
            f"{self.trained.total()} trained (each once) + {self.dropped.total()} filtered "
            f"({reasons}) + {self.failed} failed + {self.unfinished} given up + "
            f"{len(self.pending)} half played ({self.recorded} of their episodes on disk) + "
            f"{len(self.finished)} finished; "
            f"{self.continued} episodes went on from their record"
        )


def _trained(run: Path, iterations: int) -> Counter[Visit]:
    found: Counter[Visit] = Counter()
    for iteration in range(1, iterations + 1):
        samples = read_samples(run / "samples" / f"{iteration}.jsonl")
        groups = {s.group_index: s.metadata["retrain"]["trajectory"] for s in samples}
        found.update((t["task"]["id"], t["seed"]["visit"]) for t in groups.values())
    return found


def _visit(group: dict[str, Any]) -> Visit:
    return group["task"]["id"], group["visit"]
