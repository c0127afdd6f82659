from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.errors import ConfigError, DataError
from retrain.rollout.partial import BUFFER_FILTERS, PartialGroup, choose, find_buffer_filter
from retrain.rollout.request import GroupRequest
from retrain.types import Task

HERE = "test_buffer_filters"


def group(index: int, begun: int = 0, tokens: int = 0) -> PartialGroup:
    return PartialGroup(GroupRequest(index, Task(f"t{index}", "x"), 2), begun, tokens, ("7",))


GROUPS = (group(4, begun=3, tokens=5), group(1, begun=1, tokens=50), group(2, begun=1, tokens=9))

partial_groups = st.lists(
    st.builds(group, st.integers(0, 30), st.integers(0, 5), st.integers(0, 9)),
    unique_by=lambda item: item.request.index,
    max_size=12,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pop_first", [4, 1, 2]),
        ("oldest_first", [1, 2, 4]),
        ("longest_partial_first", [1, 2, 4]),
        ("freshest_weights", [4, 1, 2]),
    ],
)
def test_filters_order_the_groups(name: str, expected: list[int]) -> None:
    chosen = choose(find_buffer_filter(name), GROUPS, 3)
    assert [item.request.index for item in chosen] == expected


@given(partial_groups, st.integers(0, 12))
def test_filters_choose_as_many_as_may_go_on(groups: list[PartialGroup], count: int) -> None:
    for name in BUFFER_FILTERS.names():
        chosen = choose(find_buffer_filter(name), groups, count)
        assert len(chosen) == min(count, len(groups))


@given(partial_groups, st.integers(0, 12), st.randoms())
def test_all_but_pop_first_choose_by_what_the_groups_are(
    groups: list[PartialGroup], count: int, random: Any
) -> None:
    shuffled = random.sample(groups, len(groups))
    for name in set(BUFFER_FILTERS.names()) - {"pop_first"}:
        filter_ = find_buffer_filter(name)
        assert choose(filter_, shuffled, count) == choose(filter_, groups, count)


@given(partial_groups, st.integers(0, 12))
def test_those_left_out_come_after_those_chosen(groups: list[PartialGroup], count: int) -> None:
    keys: dict[str, Callable[[PartialGroup], int]] = {
        "oldest_first": lambda item: item.begun,
        "longest_partial_first": lambda item: -item.tokens,
        "freshest_weights": lambda item: -item.begun,
    }
    for name, key in keys.items():
        chosen = choose(find_buffer_filter(name), groups, count)
        left = [item for item in groups if item not in chosen]
        assert max(map(key, chosen), default=-99) <= min(map(key, left), default=99)


def newest_even(groups: Sequence[PartialGroup], count: int) -> list[PartialGroup]:
    return [item for item in reversed(groups) if item.request.index % 2 == 0][:count]


def test_a_filter_of_the_users_is_found_by_path() -> None:
    chosen = choose(find_buffer_filter(f"{HERE}:newest_even"), GROUPS, 3)
    assert [item.request.index for item in chosen] == [2, 4]


def of_one_argument(groups: Sequence[PartialGroup]) -> Sequence[PartialGroup]:
    return groups


no_function = "text"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("oldst_first", "unknown buffer filter 'oldst_first': did you mean 'oldest_first'"),
        (f"{HERE}:no_function", "rollout.buffer_filter: .* is no function"),
        (f"{HERE}:of_one_argument", r"cannot be called \(too many positional arguments\); a buf"),
        (f"{HERE}:absent", "has no 'absent'"),
    ],
)
def test_what_is_no_buffer_filter_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_buffer_filter(name)


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        (lambda groups, count: groups, r"at most 2 of the 3 groups .* returned \[4, 1, 2\]"),
        (lambda groups, count: [groups[0]] * 2, r"each once; it returned \[4, 4\]"),
        (lambda groups, count: [group(9)], r"it returned \[9\]"),
        (lambda groups, count: ["t1"], r"it returned \('t1',\)"),
        (lambda groups, count: None, "TypeError: 'NoneType' object is not iterable"),
        (lambda groups, count: groups[9], "IndexError: tuple index out of range"),
    ],
)
def test_a_filter_that_gives_something_else_is_named(
    filter_: Callable[..., Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"rollout.buffer_filter '<lambda>': .*{message}"):
        choose(filter_, GROUPS, 2)


@given(partial_groups)
def test_a_partial_group_reads_back_from_its_row(groups: list[PartialGroup]) -> None:
    tasks = {item.request.task.id: item.request.task for item in groups}
    assert [PartialGroup.of_row(item.row(), tasks) for item in groups] == groups


def test_a_partial_group_whose_task_is_gone_is_named() -> None:
    with pytest.raises(DataError, match="task 't4' is half played and no longer in the prompt"):
        PartialGroup.of_row(GROUPS[0].row(), {})
