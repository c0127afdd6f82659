from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.errors import DataError
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.buffer_state import merge_states
from retrain.rollout.partial import PartialGroup, oldest_first
from retrain.rollout.request import GroupRequest
from retrain.types import Message, Task

TASKS = tuple(Task(f"task-{number}", str(number)) for number in range(7))

sizes = st.integers(1, 9)
draws = st.integers(0, 40)


def tasks(count: int) -> tuple[Task, ...]:
    return tuple(Task(f"t{number}", f"prompt {number}") for number in range(count))


def ids(buffer: DataBuffer, count: int) -> list[str]:
    return [request.task.id for request in buffer.draw(count)]


def saved(buffer: DataBuffer) -> dict[str, Any]:
    """The state as a file would give it back."""
    state: dict[str, Any] = json.loads(json.dumps(buffer.state_dict()))
    return state


def ranks_of(count: int, of: tuple[Task, ...] = TASKS) -> list[DataBuffer]:
    return [DataBuffer(of, seed=3, rank=rank, ranks=count) for rank in range(count)]


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


@given(st.permutations(TASKS), st.integers(0, 2**31))
def test_order_does_not_depend_on_the_order_of_the_file(shuffled: list[Task], seed: int) -> None:
    assert ids(DataBuffer(shuffled, seed=seed), 14) == ids(DataBuffer(TASKS, seed=seed), 14)


def test_without_shuffle_the_order_is_kept() -> None:
    expected = [task.id for task in TASKS]
    assert ids(DataBuffer(TASKS, seed=1, shuffle=False), 14) == expected * 2


def test_the_epoch_is_that_of_the_next_draw() -> None:
    buffer = DataBuffer(TASKS, seed=1)
    assert (buffer.epoch, len(buffer)) == (0, 7)
    buffer.draw(7)
    assert buffer.epoch == 1


@given(sizes, st.lists(st.integers(0, 5), max_size=8), draws, st.booleans())
def test_draws_do_not_depend_on_how_they_are_cut_up(
    count: int, cuts: list[int], after: int, shuffle: bool
) -> None:
    whole = DataBuffer(tasks(count), seed=3, shuffle=shuffle)
    parts = DataBuffer(tasks(count), seed=3, shuffle=shuffle)
    drawn = [request for cut in cuts for request in parts.draw(cut)] + parts.draw(after)
    assert drawn == whole.draw(sum(cuts) + after)
    assert parts.drawn == whole.drawn == sum(cuts) + after


@given(sizes, draws, draws, st.booleans())
def test_resumed_buffer_draws_what_the_first_would_have(
    count: int, before: int, after: int, shuffle: bool
) -> None:
    first = DataBuffer(tasks(count), seed=3, shuffle=shuffle)
    first.draw(before)
    second = DataBuffer(tasks(count), seed=3, shuffle=shuffle)
    second.load_state_dict(saved(first))
    assert second.draw(after) == first.draw(after)
    assert (second.epoch, second.drawn) == (first.epoch, first.drawn)
    assert saved(second) == saved(first)


@given(sizes, st.integers(1, 5), st.integers(0, 12))
def test_ranks_share_the_draws_of_one_buffer(count: int, ranks: int, each: int) -> None:
    shares = [buffer.draw(each) for buffer in ranks_of(ranks, tasks(count))]
    assert [len(share) for share in shares] == [each] * ranks
    together = sorted((r for share in shares for r in share), key=lambda request: request.index)
    assert together == DataBuffer(tasks(count), seed=3).draw(each * ranks)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=2), st.randoms())
def test_shares_do_not_depend_on_who_draws_when(each: list[int], random: Any) -> None:
    turns = [rank for rank, count in enumerate(each) for _ in range(count)]
    random.shuffle(turns)
    one, other = ranks_of(2), ranks_of(2)
    mixed: list[list[GroupRequest]] = [[], []]
    for rank in turns:
        mixed[rank] += one[rank].draw(1)
    assert mixed == [buffer.draw(count) for buffer, count in zip(other, each, strict=True)]


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(0, 12),
)
def test_any_number_of_ranks_goes_on_from_the_merged_states_of_others(
    drawn: list[int], ranks: int, after: int
) -> None:
    before = ranks_of(len(drawn))
    made = [r for buffer, count in zip(before, drawn, strict=True) for r in buffer.draw(count)]
    merged = json.loads(json.dumps(merge_states([buffer.state_dict() for buffer in before])))
    assert merged["drawn"] == sum(drawn)
    again = ranks_of(ranks)
    for buffer in again:
        buffer.load_state_dict(merged)
    later = [request for buffer in again for request in buffer.draw(after)]
    indices = sorted(request.index for request in [*made, *later])
    assert len(set(indices)) == len(indices), "a visit is drawn twice"
    if ranks == 1:
        gone = {request.index for request in made}
        left = [index for index in range(max(gone, default=-1) + after + 1) if index not in gone]
        assert [request.index for request in later] == left[:after], "a visit is left out"


def test_merged_states_of_ranks_that_went_on_merge_again() -> None:
    first = ranks_of(2)
    drawn = [r.index for buffer, n in zip(first, (5, 1), strict=True) for r in buffer.draw(n)]
    state = merge_states([buffer.state_dict() for buffer in first])
    second = ranks_of(3)
    for buffer, n in zip(second, (0, 2, 1), strict=True):
        buffer.load_state_dict(state)
        drawn += [request.index for request in buffer.draw(n)]
    one = DataBuffer(TASKS, seed=3)
    one.load_state_dict(merge_states([buffer.state_dict() for buffer in second]))
    assert one.drawn == len(drawn) == len(set(drawn))
    drawn += [request.index for request in one.draw(20)]
    assert sorted(drawn) == list(range(29))


def test_the_state_of_one_rank_is_not_another_ones() -> None:
    first, second = (buffer.state_dict() for buffer in ranks_of(2))
    with pytest.raises(DataError, match=r"is of rank 1 of 2 alone, and this is rank 0 of 2; merge"):
        ranks_of(2)[0].load_state_dict(second)
    with pytest.raises(DataError, match="and this is rank 0 of 1"):
        DataBuffer(TASKS, seed=3).load_state_dict(first)
    with pytest.raises(DataError, match=r"every rank's, in order; got those of \[\[1, 2\]\]"):
        merge_states([second])
    with pytest.raises(ValueError, match="rank 2 is none of the 2 ranks"):
        DataBuffer(TASKS, seed=3, rank=2, ranks=2)


def test_a_group_given_back_is_drawn_again_before_new_ones() -> None:
    buffer = DataBuffer(TASKS, seed=1)
    first, second, third = buffer.draw(3)
    buffer.give_back([PartialGroup(third, 0), PartialGroup(first, 0)])
    assert buffer.drawn == 3
    again = buffer.draw(3)
    assert again[:2] == [third, first]
    assert again[2].index == 3 and second not in again
    assert buffer.partial == ()


def test_the_buffer_filter_chooses_which_go_on() -> None:
    buffer = DataBuffer(TASKS, seed=1, buffer_filter=oldest_first)
    first, second = buffer.draw(2)
    buffer.give_back([PartialGroup(first, 5), PartialGroup(second, 2)])
    assert buffer.draw(1) == [second]
    assert [group.request for group in buffer.partial] == [first]


def test_a_group_is_given_back_once() -> None:
    buffer = DataBuffer(TASKS, seed=1)
    (request,) = buffer.draw(1)
    with pytest.raises(ValueError, match="group 0 was given back twice"):
        buffer.give_back([PartialGroup(request, 0), PartialGroup(request, 1)])


@given(st.integers(1, 12), st.data())
def test_the_partial_cache_stands_in_the_state(drawn: int, data: st.DataObject) -> None:
    first = DataBuffer(TASKS, seed=3)
    requests = first.draw(drawn)
    left = data.draw(st.lists(st.sampled_from(requests), unique_by=lambda r: r.index))
    first.give_back(PartialGroup(r, r.index % 3, 10 * r.index, ("4", "5")) for r in left)
    second = DataBuffer(TASKS, seed=3)
    second.load_state_dict(saved(first))
    assert second.partial == first.partial
    assert second.draw(drawn) == first.draw(drawn)


def test_ranks_share_the_partial_cache_of_one_buffer() -> None:
    one = DataBuffer(TASKS, seed=3)
    one.give_back(PartialGroup(request, 0) for request in one.draw(5))
    shares = ranks_of(2)
    for buffer in shares:
        buffer.load_state_dict(saved(one))
    kept = [[group.request.index for group in buffer.partial] for buffer in shares]
    assert kept == [[0, 2, 4], [1, 3]]
    assert (
        merge_states([buffer.state_dict() for buffer in shares])["partial"]
        == (one.state_dict()["partial"])
    )


def change(**values: Any) -> tuple[Task, ...]:
    task = TASKS[0]
    row = {"id": task.id, "prompt": task.prompt, **values}
    return (Task(**row), *TASKS[1:])


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (TASKS[:-1], "of 7 then and 6 now, 0 appeared, 1 vanished, 0 changed"),
        ((*TASKS, Task("new", "x")), "of 7 then and 8 now, 1 appeared, 0 vanished, 0 changed"),
        (change(id="other"), "1 appeared, 1 vanished, 0 changed"),
        (change(prompt="another prompt"), "0 appeared, 0 vanished, 1 changed"),
        (change(prompt=(Message("user", "0"),)), "0 appeared, 0 vanished, 1 changed"),
        (change(label="4"), "0 appeared, 0 vanished, 1 changed"),
        (change(metadata={"level": 2}), "0 appeared, 0 vanished, 1 changed"),
    ],
)
def test_tasks_that_have_changed_are_refused_with_counts(
    now: tuple[Task, ...], message: str
) -> None:
    state = saved(DataBuffer(TASKS, seed=3))
    with pytest.raises(DataError, match=message) as raised:
        DataBuffer(now, seed=3).load_state_dict(state)
    assert "resume with the tasks as they were, or start a new run" in str(raised.value)


def test_another_order_of_the_tasks_counts_where_it_is_not_shuffled() -> None:
    state = DataBuffer(TASKS, seed=3, shuffle=False).state_dict()
    with pytest.raises(DataError, match="the 7 tasks are the same, in another order"):
        DataBuffer(TASKS[::-1], seed=3, shuffle=False).load_state_dict(state)
    DataBuffer(TASKS[::-1], seed=3).load_state_dict(DataBuffer(TASKS, seed=3).state_dict())


def test_the_order_of_metadata_is_no_change() -> None:
    one, other = Task("a", "x", None, {"p": 1, "q": 2}), Task("a", "x", None, {"q": 2, "p": 1})
    DataBuffer([one], seed=3).load_state_dict(DataBuffer([other], seed=3).state_dict())


def test_another_setting_is_refused_by_name() -> None:
    state = DataBuffer(TASKS, seed=3).state_dict()
    with pytest.raises(DataError, match="seed: 3 then, 4 now; resume with the same"):
        DataBuffer(TASKS, seed=4).load_state_dict(state)
    with pytest.raises(DataError, match="shuffle: True then, False now"):
        DataBuffer(TASKS, seed=3, shuffle=False).load_state_dict(state)
    with pytest.raises(DataError, match="version 99 cannot be read; expected 2"):
        DataBuffer(TASKS, seed=3).load_state_dict({**state, "version": 99})


def test_a_state_that_was_refused_changes_nothing() -> None:
    buffer = DataBuffer(TASKS, seed=3)
    buffer.draw(2)
    before = saved(buffer)
    other = DataBuffer(TASKS, seed=4)
    other.draw(5)
    with pytest.raises(DataError):
        buffer.load_state_dict(other.state_dict())
    gone = {**saved(buffer), "partial": [{"index": 0, "task": "gone"}]}
    with pytest.raises(DataError, match="task 'gone' is half played and no longer"):
        buffer.load_state_dict(gone)
    assert saved(buffer) == before


def test_a_state_of_many_tasks_stays_small() -> None:
    many = [Task(f"a rather long name {number}", "x" * 1000) for number in range(10_000)]
    assert len(json.dumps(DataBuffer(many, seed=0).state_dict())) < 13 * len(many)


def test_empty_source_is_refused() -> None:
    with pytest.raises(DataError, match="no task"):
        DataBuffer((), seed=0)
