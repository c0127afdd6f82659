"""The state of several processes' managers: merged, shared out again, and read back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retrain.errors import DataError
from retrain.rollout.manager_state import (
    Finished,
    ManagerState,
    Pending,
    merge_states,
    read_state,
    share_state,
    write_state,
)
from retrain.rollout.request import GroupRequest
from retrain.types import Group, Task

TASKS = {f"t{n}": Task(f"t{n}", "q") for n in range(8)}


def request(index: int) -> GroupRequest:
    return GroupRequest(index, TASKS[f"t{index % 8}"], index // 8)


def state_of(pending: list[int], finished: list[int]) -> dict[str, Any]:
    groups = [Group(i, request(i).task, request(i).visit, ()) for i in finished]
    waiting = [Pending(request(i), 1, {"0": {"partial": None}}) for i in pending]
    done = tuple(Finished(2, group) for group in groups)
    return json.loads(json.dumps(write_state(ManagerState(3, tuple(waiting), done))))


def test_a_state_is_read_back_as_it_was_written() -> None:
    read = read_state(state_of([4, 9], [2]), TASKS)
    assert [waiting.request for waiting in read.pending] == [request(4), request(9)]
    assert read.pending[0].begun == 1 and read.pending[0].records == {"0": {"partial": None}}
    assert read.finished[0].group.task is TASKS["t2"] and read.iteration == 3


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_shares_are_a_partition_for_any_number_of_processes(processes: int) -> None:
    merged = merge_states([state_of([4, 9], [2]), state_of([1], [3, 7])])
    assert [row["index"] for row in merged["pending"]] == [1, 4, 9]
    shares = [share_state(merged, processes, rank) for rank in range(processes)]
    assert sorted(r["index"] for s in shares for r in s["pending"]) == [1, 4, 9]
    assert sorted(r["group"]["index"] for s in shares for r in s["finished"]) == [2, 3, 7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 1}, "version 1 cannot be read"),
        ({"pending": [{"index": "x"}]}, "is damaged"),
        ({"finished": [{"begun": 0, "group": {"index": 0}}]}, "is damaged"),
        ({"iteration": None}, "is damaged"),
    ],
)
def test_a_damaged_state_is_refused(change: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_state({**state_of([4], [2]), **change}, TASKS)


def test_a_task_that_is_gone_is_named() -> None:
    with pytest.raises(DataError, match="task 't2' is half played and no longer"):
        read_state(state_of([], [2]), {})
