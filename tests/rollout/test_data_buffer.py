from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.errors import DataError
from retrain.rollout.buffer import DataBuffer
from retrain.types import Task

TASKS = tuple(Task(f"task-{number}", str(number)) for number in range(7))


def ids(buffer: DataBuffer, count: int) -> list[str]:
    return [request.task.id for request in buffer.draw(count)]


def test_every_epoch_visits_every_task_once() -> None:
    buffer = DataBuffer(TASKS, seed=1)
    requests = buffer.draw(21)
    assert Counter(r.task.id for r in requests) == {task.id: 3 for task in TASKS}
    for task in TASKS:
        assert [r.visit for r in requests if r.task is task] == [0, 1, 2]
    assert [r.index for r in requests] == list(range(21))


def test_epochs_are_shuffled_differently_and_by_seed() -> None:
    buffer = DataBuffer(TASKS, seed=1)
    first, second = ids(buffer, 7), ids(buffer, 7)
    assert first != second
    assert ids(DataBuffer(TASKS, seed=2), 7) != first
    assert ids(DataBuffer(TASKS, seed=1), 7) == first


def test_order_does_not_depend_on_the_order_of_the_file() -> None:
    assert ids(DataBuffer(TASKS[::-1], seed=1), 14) == ids(DataBuffer(TASKS, seed=1), 14)


def test_without_shuffle_the_order_is_kept() -> None:
    expected = [task.id for task in TASKS]
    assert ids(DataBuffer(TASKS, seed=1, shuffle=False), 14) == expected * 2


@given(st.integers(0, 40), st.integers(0, 40))
def test_resumed_buffer_draws_what_the_first_would_have(before: int, after: int) -> None:
    first = DataBuffer(TASKS, seed=3)
    first.draw(before)
    state = json.loads(json.dumps(first.state_dict()))
    second = DataBuffer(TASKS, seed=3)
    second.load_state_dict(state)
    assert second.draw(after) == first.draw(after)
    assert (second.epoch, second.drawn) == (first.epoch, first.drawn)


def test_state_of_other_tasks_is_refused() -> None:
    state = DataBuffer(TASKS, seed=3).state_dict()
    with pytest.raises(DataError, match="has changed since the checkpoint"):
        DataBuffer(TASKS[:-1], seed=3).load_state_dict(state)
    with pytest.raises(DataError, match="has changed since the checkpoint"):
        DataBuffer(TASKS, seed=4).load_state_dict(state)
    reworded = (Task("task-0", "another prompt"), *TASKS[1:])
    with pytest.raises(DataError, match="has changed since the checkpoint"):
        DataBuffer(reworded, seed=3).load_state_dict(state)
    with pytest.raises(DataError, match="version"):
        DataBuffer(TASKS, seed=3).load_state_dict({**state, "version": 99})


def test_empty_source_is_refused() -> None:
    with pytest.raises(DataError, match="no task"):
        DataBuffer((), seed=0)
