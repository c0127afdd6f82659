"""The next batch is collected while one is trained on: faster, never too old, and nothing lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timed_play import TimedEngine, TimedPlay, long_tailed
from virtual_clock import run_virtual

from retrain.errors import ConfigError, EngineFailure
from retrain.rollout.ahead import CollectingAhead
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import Batch, OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.playing import Visit
from retrain.rollout.request import GroupRequest
from retrain.types import Group, Task, Turn

TASKS = [Task(f"task-{i}", "q") for i in range(12)]
Where = tuple[str, int]


class Judged(TimedPlay):
    """Takes a while after the last token, outside the engine, as a judge does."""

    async def __call__(self, visit: Visit) -> Group:
        group = await super().__call__(visit)
        await asyncio.sleep(0.03 * (visit.request.index % 5))
        return group


def drops_some(group: Group) -> bool:
    return bool(group.index % 7)


async def drops_some_later(group: Group) -> bool:
    await asyncio.sleep(0.015)
    return drops_some(group)


class Rig:
    """A manager that collects ahead, a trainer, and everything around them."""

    def __init__(
        self, how: OverSampling, *, abortable: bool = True, played: Any = Judged, **play: Any
    ) -> None:
        self.engine = TimedEngine(abortable=abortable)
        self.gate = GatedEngine(self.engine)
        self.play = played(self.gate, **play)
        self.buffer = DataBuffer(TASKS, seed=1)
        self.manager = RolloutManager(self.play, self.buffer, self.gate, how)
        self.ahead = CollectingAhead(self.manager)
        self.batches: list[Batch] = []
        self.oldest: list[int] = []

    async def collect(self) -> None:
        batch = await self.ahead.collect()
        now = int(self.engine.weight_version)
        self.batches.append(batch)
        self.oldest.append(max(now - version for version in versions(batch)))

    async def change_weights(self, seconds: float = 0.0) -> None:
        async with self.ahead.weights_changing():
            written = self.engine.written
            assert not +self.engine.running
            await asyncio.sleep(seconds)
            assert not +self.engine.running and self.engine.written == written
            self.engine.weight_version = str(int(self.engine.weight_version) + 1)

    def state(self) -> dict[str, Any]:
        state = {"data": self.buffer.state_dict(), "rollout": self.manager.state_dict()}
        return json.loads(json.dumps(state))

    async def saved_state(self) -> dict[str, Any]:
        data = self.buffer.state_dict()
        state = {"data": data, "rollout": await self.manager.saved_state()}
        return json.loads(json.dumps(state))

    def load(self, state: dict[str, Any]) -> None:
        self.buffer.load_state_dict(state["data"])
        self.manager.load_state_dict(state["rollout"], {task.id: task for task in TASKS})
        self.engine.weight_version = str(self.manager.updates)


def turns(batch: Batch) -> Iterable[Turn]:
    return (u for g in batch.groups for t in g.trajectories for u in t.turns)


def spans(turn: Turn) -> tuple[tuple[int, str], ...]:
    return turn.weight_spans or ((len(turn.output_ids), turn.weight_version),)


def versions(batch: Batch) -> list[int]:
    """Of the weights that wrote each stretch of tokens."""
    return [int(version) for turn in turns(batch) for _, version in spans(turn)]


def trained(batches: Iterable[Batch]) -> Counter[Where]:
    return Counter((g.task.id, g.visit) for batch in batches for g in batch.groups)


def left(state: dict[str, Any]) -> Counter[Where]:
    rollout = state["rollout"]
    done = [(row["group"]["task"]["id"], row["group"]["visit"]) for row in rollout["finished"]]
    return Counter([*((row["task"], row["visit"]) for row in rollout["pending"]), *done])


def counted(batches: Iterable[Batch], state: dict[str, Any]) -> int:
    """How many visits were dropped by the filter, or given up half played."""
    rows = [asdict(batch.tally) for batch in batches] + state["rollout"]["counted"]
    return sum(sum(row["dropped"].values()) + row["unfinished"] for row in rows)


def drawn(state: dict[str, Any]) -> int:
    buffer = DataBuffer(TASKS, seed=1)
    buffer.load_state_dict(state["data"])
    return buffer.drawn


def require_conserved(batches: list[Batch], state: dict[str, Any]) -> None:
    """Every drawn visit was trained on once, or counted, or is still there."""
    places = trained(batches) + left(state)
    assert not places or set(places.values()) == {1}
    assert drawn(state) == places.total() + counted(batches, state)


def same_length(request: GroupRequest, member: int) -> int:
    return 20


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("training", [0.05, 0.2, 0.5])
def test_a_run_takes_as_long_as_the_slower_of_training_and_collecting(training: float) -> None:
    async def run(rig: Rig, *, ahead: bool) -> float:
        began = now()
        async with rig.ahead:
            for _ in range(20):
                rig.batches.append(await (rig.ahead if ahead else rig.manager).collect())
                await asyncio.sleep(training)
            return now() - began

    def rig() -> Rig:
        return Rig(OverSampling(4), length=same_length, played=TimedPlay)

    collecting = 0.2
    assert run_virtual(run(rig(), ahead=False)) == pytest.approx(20 * (collecting + training))
    expected = collecting + 19 * max(collecting, training) + training
    assert run_virtual(run(rig(), ahead=True)) == pytest.approx(expected)


def test_turns_are_suspended_while_weights_change_and_go_on_from_their_tokens() -> None:
    async def run(rig: Rig) -> None:
        async with rig.ahead:
            for _ in range(12):
                await rig.collect()
                await asyncio.sleep(0.07)
                await rig.change_weights(0.5)

    rig = Rig(OverSampling(4), length=same_length, played=TimedPlay)
    run_virtual(run(rig))
    mixed = 0
    for turn in (turn for batch in rig.batches for turn in turns(batch)):
        assert len(turn.output_ids) == 20 and sum(count for count, _ in spans(turn)) == 20
        expected = [-0.1 - float(v) for count, v in spans(turn) for _ in range(count)]
        assert list(turn.output_logprobs) == pytest.approx(expected)
        mixed += len(spans(turn)) > 1
    assert mixed > 20
    assert max(rig.oldest) == 1 and all(batch.tally.restarted == 0 for batch in rig.batches)


@st.composite
def schedules(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "size": draw(st.integers(1, 4)),
        "factor": draw(st.sampled_from([1.0, 1.5, 3.0])),
        "partial": draw(st.booleans()),
        "bound": draw(st.sampled_from([1, 2, 3])),
        "abortable": draw(st.booleans()),
        "filter": draw(st.sampled_from([None, drops_some, drops_some_later])),
        "seed": draw(st.integers(0, 10**6)),
    }


def rig_of(schedule: dict[str, Any], **play: Any) -> Rig:
    how = OverSampling(
        schedule["size"],
        schedule["factor"],
        filter=schedule["filter"],
        partial=schedule["partial"],
        max_staleness=schedule["bound"],
        max_refills=1000,
    )
    return Rig(how, abortable=schedule["abortable"], **play)


async def train(rig: Rig, rng: random.Random, batches: int) -> None:
    """Train for random times, and renew the weights at random times, once and again twice."""
    for _ in range(batches):
        await rig.collect()
        await asyncio.sleep(rng.choice([0.0, 0.02, 0.3, 2.0]) * rng.random())
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            await rig.change_weights(rng.choice([0.0, 0.1]))


@settings(max_examples=60, deadline=None)
@given(schedules())
def test_no_token_of_a_batch_is_older_than_the_bound(schedule: dict[str, Any]) -> None:
    async def run() -> Rig:
        rig = rig_of(schedule)
        async with rig.ahead:
            await train(rig, random.Random(schedule["seed"]), 12)
            require_conserved(rig.batches, rig.state())
        return rig

    rig = run_virtual(run())
    assert max(rig.oldest) <= schedule["bound"]
    require_conserved(rig.batches, rig.state())
    assert {len(batch.groups) for batch in rig.batches} == {schedule["size"]}
    assert [batch.iteration for batch in rig.batches] == list(range(12))


@settings(max_examples=40, deadline=None)
@given(schedules())
def test_the_bound_holds_where_another_task_changes_the_weights(schedule: dict[str, Any]) -> None:
    rng = random.Random(schedule["seed"])

    def soon_over(request: GroupRequest, member: int) -> int:
        return min(long_tailed(request, member), 30)

    async def run() -> Rig:
        rig = rig_of(schedule, length=soon_over)

        async def change() -> None:
            while True:
                await asyncio.sleep(0.5 + rng.random())
                await rig.change_weights(0.05)

        changing = asyncio.create_task(change())
        async with rig.ahead:
            for _ in range(12):
                await rig.collect()
        changing.cancel()
        return rig

    rig = run_virtual(run())
    assert max(rig.oldest) <= schedule["bound"]
    require_conserved(rig.batches, rig.state())


def test_a_group_that_grows_too_old_while_it_is_played_begins_again_at_once() -> None:
    def length(request: GroupRequest, member: int) -> int:
        return 20 if request.index == 0 else 200

    rig = Rig(OverSampling(1, max_staleness=1), length=length, played=TimedPlay)

    async def go() -> None:
        async with rig.ahead:
            await rig.collect()
            await asyncio.sleep(0.5)
            await rig.change_weights()
            await rig.change_weights()
            await rig.collect()
            assert now() == pytest.approx(0.2 + 0.5 + 2.0, abs=0.05)

    run_virtual(go())
    assert rig.batches[1].tally.restarted == 1 and rig.oldest[1] == 0


def test_without_the_bound_tokens_grow_older_and_with_it_groups_begin_again() -> None:
    def run(bound: int | None) -> tuple[int, int]:
        how = OverSampling(2, 3.0, max_staleness=bound)
        rig = Rig(how, length=lambda request, member: 300 if request.index % 4 == 0 else 5)

        async def go() -> None:
            async with rig.ahead:
                for _ in range(30):
                    await rig.collect()
                    await rig.change_weights()

        run_virtual(go())
        return max(rig.oldest), sum(batch.tally.restarted for batch in rig.batches)

    assert run(None)[0] > 2 and run(None)[1] == 0
    oldest, restarted = run(2)
    assert oldest <= 2 and restarted > 0


def test_a_batch_that_grew_too_old_while_it_waited_is_collected_again() -> None:
    rig = Rig(OverSampling(3, max_staleness=1), length=same_length, played=TimedPlay)

    async def go() -> None:
        async with rig.ahead:
            await rig.collect()
            await asyncio.sleep(1.0)
            await rig.change_weights()
            await rig.change_weights()
            await rig.collect()
            require_conserved(rig.batches, rig.state())

    run_virtual(go())
    assert rig.batches[1].tally.restarted == 3 and rig.oldest[1] == 0
    assert set(trained(rig.batches).values()) == {1}


@pytest.mark.parametrize("records", [True, False])
@settings(max_examples=40, deadline=None)
@given(schedule=schedules(), after=st.floats(0.0, 4.0))
def test_a_kill_at_any_moment_loses_no_visit(
    records: bool, schedule: dict[str, Any], after: float
) -> None:
    rng = random.Random(schedule["seed"])

    async def until_killed() -> tuple[list[Batch], dict[str, Any]]:
        rig = rig_of(schedule)
        training = asyncio.create_task(train(rig, rng, 100))
        await asyncio.sleep(after)
        before = list(rig.batches)
        state = await (rig.saved_state() if records else _soon(rig.state()))
        training.cancel()
        await asyncio.gather(training, return_exceptions=True)
        await rig.ahead.close()
        return before, state

    async def resumed(state: dict[str, Any]) -> Rig:
        rig = rig_of(schedule)
        rig.load(state)
        async with rig.ahead:
            await train(rig, rng, 6)
        return rig

    before, state = run_virtual(until_killed())
    require_conserved(before, state)
    rig = run_virtual(resumed(state))
    require_conserved([*before, *rig.batches], rig.state())
    assert max(rig.oldest) <= schedule["bound"]
    assert rig.batches[0].iteration == len(before)


async def _soon(value: dict[str, Any]) -> dict[str, Any]:
    return value


class Failing(TimedPlay):
    """Fails the first time for some groups, as where a server restarts."""

    async def __call__(self, visit: Visit) -> Group:
        first = not self.begun[visit.request.task.id, visit.request.visit]
        if first and visit.request.index in (5, 6):
            self.begun[visit.request.task.id, visit.request.visit] += 1
            raise EngineFailure("the server is gone")
        return await super().__call__(visit)


def test_what_fails_ahead_is_raised_by_the_next_call_and_nothing_is_lost() -> None:
    rig = Rig(OverSampling(4), length=same_length, played=Failing)

    async def go() -> None:
        async with rig.ahead:
            await rig.collect()
            await asyncio.sleep(1.0)
            with pytest.raises(EngineFailure, match="the server is gone"):
                await rig.collect()
            require_conserved(rig.batches, rig.state())
            await rig.collect()
            indices = [group.index for group in rig.batches[1].groups]
            assert indices == [4, 5, 6, 7]

    run_virtual(go())


def test_nothing_runs_on_after_closing() -> None:
    rig = Rig(OverSampling(4, 2.0))

    async def go() -> None:
        async with rig.ahead:
            await rig.collect()
            await asyncio.sleep(0.01)
            assert len(asyncio.all_tasks()) > 1
            closed = now()
        assert now() - closed < 0.02
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not +rig.engine.running
        require_conserved(rig.batches, rig.state())

    run_virtual(go())


def test_an_interrupted_run_leaves_nothing_running() -> None:
    rig = Rig(OverSampling(4, 2.0))

    async def go() -> None:
        async def training() -> None:
            async with rig.ahead:
                await train(rig, random.Random(3), 100)

        run = asyncio.create_task(training())
        await asyncio.sleep(1.3)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert asyncio.all_tasks() == {asyncio.current_task()} and not +rig.engine.running
        require_conserved(rig.batches, rig.state())

    run_virtual(go())


def test_a_call_that_is_cancelled_leaves_the_batch_to_the_next_one() -> None:
    rig = Rig(OverSampling(4), length=same_length, played=TimedPlay)

    async def go() -> None:
        async with rig.ahead:
            await rig.collect()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(rig.ahead.collect(), 0.05)
            await rig.collect()
            assert now() == pytest.approx(0.4)

    run_virtual(go())
    assert set(trained(rig.batches).values()) == {1} and len(trained(rig.batches)) == 8


def test_a_call_that_is_cancelled_while_it_ends_groups_loses_none() -> None:
    class Slow(TimedPlay):
        async def __call__(self, visit: Visit) -> Group:
            try:
                return await super().__call__(visit)
            finally:
                await asyncio.sleep(0.2)

    rig = Rig(OverSampling(2, 3.0, partial=False), played=Slow)

    async def go() -> None:
        async with rig.manager:
            for tenths in range(1, 12):
                with suppress(TimeoutError):
                    rig.batches.append(await asyncio.wait_for(rig.manager.collect(), tenths / 10))
                require_conserved(rig.batches, rig.state())
            assert rig.batches

    run_virtual(go())


def test_a_change_that_fails_counts_and_lets_the_turns_go_on() -> None:
    rig = Rig(OverSampling(2), length=same_length, played=TimedPlay)

    async def go() -> None:
        async with rig.ahead:
            await rig.collect()
            await asyncio.sleep(0.05)
            with pytest.raises(OSError, match="no link"):
                async with rig.ahead.weights_changing():
                    raise OSError("no link")
            await rig.collect()

    run_virtual(go())
    assert rig.manager.updates == 1 and len(rig.batches) == 2


def test_a_filter_that_drops_too_much_counts_what_it_dropped_once() -> None:
    def nothing(group: Group) -> bool:
        return False

    rig = Rig(OverSampling(4, filter=nothing, max_refills=2))

    async def go() -> None:
        async with rig.ahead:
            with pytest.raises(ConfigError, match="dropped 9 groups"):
                await rig.collect()
            require_conserved([], rig.state())

    run_virtual(go())


@pytest.mark.parametrize("keys", [{"max_staleness": 0}, {"mask_stale": True}])
def test_settings_that_bear_no_older_weights_are_refused(keys: Any) -> None:
    with pytest.raises(ConfigError, match=next(iter(keys))):
        Rig(OverSampling(4, **keys))
