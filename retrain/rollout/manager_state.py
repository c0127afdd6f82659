"""What a `RolloutManager` keeps over a restart, and its form in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from retrain.errors import DataError
from retrain.rollout.filling import Tally
from retrain.rollout.playing import Finished
from retrain.rollout.request import GroupRequest
from retrain.types import Group, Task

_VERSION = 2


@dataclass(frozen=True, slots=True)
class Pending:
    """A task that is to be begun, or to go on.

    Attributes:
        request: The task.
        begun: How often the weights had changed when it was begun first; None where it never was.
        records: How far its episodes are, as JSON values by their place in the group.
    """

    request: GroupRequest
    begun: int | None = None
    records: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManagerState:
    """Where every drawn task stands that no batch has had.

    Attributes:
        iteration: The next iteration.
        pending: Tasks that are to be begun, or to go on.
        finished: Groups that wait for a batch, or stand in one that no one has had.
        updates: How often the weights have changed.
        counted: What became of groups that are in no place any more, for the batch being filled.
    """

    iteration: int
    pending: tuple[Pending, ...] = ()
    finished: tuple[Finished, ...] = ()
    updates: int = 0
    counted: tuple[Tally, ...] = ()


def write_state(state: ManagerState) -> dict[str, Any]:
    """Give a state as JSON values."""
    return {
        "version": _VERSION,
        "iteration": state.iteration,
        "updates": state.updates,
        "counted": [asdict(tally) for tally in state.counted],
        "pending": [
            {
                "index": waiting.request.index,
                "task": waiting.request.task.id,
                "visit": waiting.request.visit,
                "begun": waiting.begun,
                "records": dict(waiting.records),
            }
            for waiting in sorted(state.pending, key=lambda waiting: waiting.request.index)
        ],
        "finished": [
            {"begun": done.begun, "group": _groups().dump_python(done.group, mode="json")}
            for done in state.finished
        ],
    }


def read_state(state: Mapping[str, Any], tasks: Mapping[str, Task]) -> ManagerState:
    """Read what `write_state` wrote.

    Args:
        state: The JSON values.
        tasks: The tasks of the prompt source by id.

    Raises:
        DataError: The state is of another version, damaged, or a task is no longer there.
    """
    if state.get("version") != _VERSION:
        raise DataError(
            f"rollout state: version {state.get('version')!r} cannot be read; expected {_VERSION}"
        )
    try:
        rows = [(int(r["index"]), str(r["task"]), int(r["visit"]), r) for r in state["pending"]]
        done = [(int(r["begun"]), _groups().validate_python(r["group"])) for r in state["finished"]]
        iteration = int(state["iteration"])
        updates = int(state.get("updates", iteration))
        counted = _tallies().validate_python(state.get("counted", ()))
    except (KeyError, TypeError, ValidationError, ValueError) as error:
        raise DataError(
            f"rollout state: is damaged ({type(error).__name__}: {str(error).splitlines()[0]}); "
            "resume from another checkpoint"
        ) from error
    _require_known([task for _, task, *_ in rows] + [group.task.id for _, group in done], tasks)
    return ManagerState(
        iteration,
        tuple(
            Pending(
                GroupRequest(index, tasks[task], visit), row.get("begun"), row.get("records") or {}
            )
            for index, task, visit, row in rows
        ),
        tuple(Finished(begun, replace(group, task=tasks[group.task.id])) for begun, group in done),
        updates,
        counted,
    )


def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One state of those of several processes, each of which has its share of the tasks."""
    return {
        **states[0],
        "counted": [row for state in states for row in state.get("counted", ())],
        "pending": sorted(_all(states, "pending"), key=lambda row: row["index"]),
        "finished": sorted(_all(states, "finished"), key=lambda row: row["group"]["index"]),
    }


def share_state(state: Mapping[str, Any], processes: int, rank: int) -> dict[str, Any]:
    """One process's share of a merged state; every task is in exactly one of the shares."""
    return {
        **state,
        "counted": state.get("counted", []) if rank == 0 else [],
        "pending": [row for row in state["pending"] if row["index"] % processes == rank],
        "finished": [r for r in state["finished"] if r["group"]["index"] % processes == rank],
    }


def _all(states: Iterable[Mapping[str, Any]], key: str) -> list[Any]:
    return [row for state in states for row in state[key]]


def _require_known(names: Iterable[str], tasks: Mapping[str, Task]) -> None:
    missing = [name for name in names if name not in tasks]
    if missing:
        raise DataError(
            f"rollout state: task {missing[0]!r} is half played and no longer in the prompt "
            "source; resume with the same one, or start a new run"
        )


@cache
def _groups() -> TypeAdapter[Group]:
    return TypeAdapter(Group)


@cache
def _tallies() -> TypeAdapter[tuple[Tally, ...]]:
    return TypeAdapter(tuple[Tally, ...])
