"""Batches filled from more groups than they need: nothing is lost and nothing trained twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from timed_play import TimedEngine, TimedPlay, long_tailed
from virtual_clock import run_virtual

from retrain.errors import ConfigError, DataError, EngineFailure
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import Batch, OverSampling
from retrain.rollout.filters import check_reward_nonzero_std
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.partial import PartialGroup, freshest_weights, longest_partial_first
from retrain.rollout.playing import Visit
from retrain.rollout.request import GroupRequest
from retrain.types import FinishReason, Group, Task

TASKS = [Task(f"task-{i}", "q") for i in range(12)]


class Rig:
    """A manager and everything around it."""

    def __init__(self, how: OverSampling, *, abortable: bool = True, **play: Any) -> None:
        self.engine = TimedEngine(abortable=abortable)
        self.gate = GatedEngine(self.engine)
        self.play = TimedPlay(self.gate, **play)
        self.buffer = DataBuffer(TASKS, seed=1)
        self.manager = RolloutManager(self.play, self.buffer, self.gate, how)

    async def batches(self, count: int) -> list[Batch]:
        collected = []
        for iteration in range(count):
            self.engine.weight_version = str(iteration)
            collected.append(await self.manager.collect())
            assert not +self.engine.running
        return collected


def left(manager: RolloutManager) -> list[tuple[str, int]]:
    """The visits that were drawn and that no batch has had."""
    state = manager.state_dict()
    finished = [(row["group"]["task"]["id"], row["group"]["visit"]) for row in state["finished"]]
    return [*((row["task"], row["visit"]) for row in state["pending"]), *finished]


def visits(groups: Sequence[Group]) -> list[tuple[str, int]]:
    return [(group.task.id, group.visit) for group in groups]


async def run(rig: Rig, count: int) -> list[Batch]:
    async with rig.manager:
        return await rig.batches(count)


def test_without_over_sampling_a_batch_is_the_next_tasks_in_order() -> None:
    rig = Rig(OverSampling(4))
    batches = run_virtual(run(rig, 3))
    drawn = DataBuffer(TASKS, seed=1).draw(12)
    expected = [(request.task.id, request.visit) for request in drawn]
    assert [v for batch in batches for v in visits(batch.groups)] == expected
    assert all(batch.tally.carried == 0 for batch in batches)


@pytest.mark.parametrize("abortable", [True, False])
@pytest.mark.parametrize("factor", [1.5, 2.0, 3.0])
def test_every_visit_is_begun_once_and_handed_out_at_most_once(
    factor: float, abortable: bool
) -> None:
    rig = Rig(OverSampling(4, factor), abortable=abortable)
    batches = run_virtual(run(rig, 30))
    trained = Counter(v for batch in batches for v in visits(batch.groups))
    assert set(trained.values()) == {1}
    assert set(rig.play.begun.values()) == {1}
    pending = left(rig.manager)
    assert trained.keys() | set(pending) == rig.play.begun.keys()
    assert not trained.keys() & set(pending)
    assert rig.buffer.drawn == len(trained) + len(pending)


def test_over_sampling_is_the_same_on_every_run() -> None:
    def groups() -> list[Any]:
        batches = run_virtual(run(Rig(OverSampling(4, 2.0)), 10))
        return [(b.groups, b.tally) for b in batches]

    assert groups() == groups()


def test_a_suspended_turn_goes_on_from_its_tokens_under_both_weights() -> None:
    def length(request: GroupRequest, member: int) -> int:
        return 30 if request.index == 0 else 5

    rig = Rig(OverSampling(2, 2.0), length=length)
    batches = run_virtual(run(rig, 8))
    (group,) = [g for batch in batches for g in batch.groups if g.index == 0]
    for trajectory in group.trajectories:
        (turn,) = trajectory.turns
        assert len(turn.output_ids) == 30 and turn.finish_reason is FinishReason.STOP
        spans = turn.weight_spans
        assert len(spans) > 1 and sum(count for count, _ in spans) == 30
        expected = [-0.1 - float(v) for count, v in spans for _ in range(count)]
        assert list(turn.output_logprobs) == pytest.approx(expected)
        assert len(set(turn.output_ids)) == len(spans)


def test_dropped_groups_are_counted_and_replaced() -> None:
    def reward(request: GroupRequest, member: int) -> float:
        return float(member) if request.index % 3 else 1.0

    rig = Rig(OverSampling(4, filter=check_reward_nonzero_std), reward=reward)
    batches = run_virtual(run(rig, 6))
    assert all(len(batch.groups) == 4 for batch in batches)
    assert all(group.index % 3 for batch in batches for group in batch.groups)
    dropped = sum((Counter(b.tally.dropped) for b in batches), Counter())
    assert set(dropped) == {"zero_std_1"}
    trained = sum(len(batch.groups) for batch in batches)
    assert trained + dropped.total() + len(left(rig.manager)) == rig.buffer.drawn


def test_a_filter_that_drops_everything_stops_with_its_reasons() -> None:
    how = OverSampling(4, filter=check_reward_nonzero_std, max_refills=2)
    rig = Rig(how, reward=lambda request, member: 0.5)
    with pytest.raises(ConfigError, match=r"dropped 9 groups .*of 4.*\n  9 x zero_std_0.5"):
        run_virtual(run(rig, 1))


def test_the_fallback_fills_the_batch_with_what_was_dropped_last() -> None:
    how = OverSampling(4, filter=check_reward_nonzero_std, max_refills=1, fallback=True)
    rig = Rig(how, reward=lambda request, member: 0.5)
    (batch,) = run_virtual(run(rig, 1))
    assert (len(batch.groups), batch.tally.fallback) == (4, 4)
    assert batch.tally.dropped == {"zero_std_0.5": 1}


def test_a_half_played_group_that_waited_too_long_is_begun_again() -> None:
    def length(request: GroupRequest, member: int) -> int:
        return 400 if request.index == 0 else 5

    rig = Rig(OverSampling(2, 2.0, max_staleness=1), length=length)
    batches = run_virtual(run(rig, 6))
    assert sum(batch.tally.restarted for batch in batches) == 2
    first = TASKS.index(DataBuffer(TASKS, seed=1).draw(1)[0].task)
    assert rig.play.begun[TASKS[first].id, 0] == 3
    trained = Counter(v for batch in batches for v in visits(batch.groups))
    assert set(trained.values()) == {1}


def none_of_them(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
    return ()


@pytest.mark.parametrize("chosen", [longest_partial_first, freshest_weights, none_of_them])
def test_buffer_filters_choose_what_goes_on(chosen: Any) -> None:
    rig = Rig(OverSampling(4, 2.0, buffer_filter=chosen))
    batches = run_virtual(run(rig, 10))
    trained = Counter(v for batch in batches for v in visits(batch.groups))
    assert set(trained.values()) == {1} and trained.total() == 40
    if chosen is none_of_them:
        assert len(left(rig.manager)) > 8


def test_a_buffer_filter_that_invents_groups_is_named() -> None:
    def twice(groups: Sequence[PartialGroup], count: int) -> Sequence[PartialGroup]:
        return [*groups[:1], *groups[:1]]

    rig = Rig(OverSampling(4, 2.0, buffer_filter=twice))
    with pytest.raises(ConfigError, match=r"buffer_filter 'twice': must return at most"):
        run_virtual(run(rig, 2))


def test_failing_groups_end_the_run_and_nothing_is_lost() -> None:
    class Failing(TimedPlay):
        async def __call__(self, visit: Visit) -> Group:
            if visit.request.index in (1, 3):
                raise EngineFailure("the server is gone")
            return await super().__call__(visit)

    rig = Rig(OverSampling(4), length=lambda request, member: 5)
    rig.manager = RolloutManager(Failing(rig.gate), rig.buffer, rig.gate, OverSampling(4))

    async def go() -> None:
        async with rig.manager:
            with pytest.raises(EngineFailure, match="the server is gone"):
                await rig.manager.collect()
            assert not +rig.engine.running
            drawn = [(r.task.id, r.visit) for r in DataBuffer(TASKS, seed=1).draw(4)]
            assert sorted(left(rig.manager)) == sorted(drawn)

    run_virtual(go())


def test_a_restart_begins_the_pending_visits_first() -> None:
    rig = Rig(OverSampling(4, 2.0))

    async def first() -> tuple[list[Batch], Any, Any]:
        async with rig.manager:
            batches = await rig.batches(3)
            return batches, rig.manager.state_dict(), rig.buffer.state_dict()

    before, state, position = run_virtual(first())
    assert len(state["pending"]) > 0
    again = Rig(OverSampling(4, 2.0))
    again.buffer.load_state_dict(position)
    again.manager.load_state_dict(state, {task.id: task for task in TASKS})
    assert again.manager.iteration == 3
    after = run_virtual(run(again, 20))
    trained = Counter(v for batch in [*before, *after] for v in visits(batch.groups))
    pending = left(again.manager)
    assert set(trained.values()) == {1}
    assert again.buffer.drawn == trained.total() + len(pending)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"version": 9}, "version 9 cannot be read; expected 2"),
        ({"version": 2, "iteration": 0}, "is damaged .KeyError: 'pending'"),
        (
            {
                "version": 2,
                "iteration": 0,
                "pending": [{"index": 0, "task": "gone", "visit": 0}],
                "finished": [],
            },
            "task 'gone' is half played and no longer in the prompt source",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused(state: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Rig(OverSampling(4)).manager.load_state_dict(state, {})


@pytest.mark.parametrize("values", [(0, 1.0), (4, 0.5)])
def test_impossible_settings_are_refused(values: tuple[int, float]) -> None:
    with pytest.raises(ConfigError, match="over-sampling needs"):
        OverSampling(*values)


def test_over_sampling_with_the_cache_saves_time_and_wastes_no_token() -> None:
    def elapsed(factor: float) -> tuple[float, int, int]:
        rig = Rig(OverSampling(8, factor))

        async def timed() -> tuple[float, int, int]:
            began = asyncio.get_running_loop().time()
            batches = await run(rig, 40)
            trained = sum(
                len(turn.output_ids)
                for batch in batches
                for group in batch.groups
                for episode in group.trajectories
                for turn in episode.turns
            )
            return asyncio.get_running_loop().time() - began, trained, rig.engine.written

        return run_virtual(timed())

    plain, over = elapsed(1.0), elapsed(2.0)
    assert plain[1] == plain[2]
    assert over[0] < 0.6 * plain[0]
    assert max(long_tailed(GroupRequest(0, task, v), 0) for task in TASKS for v in range(30)) > 100
