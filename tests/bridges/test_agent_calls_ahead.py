"""Batches of plain calls that are collected while the caller trains."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from functools import partial
from itertools import islice
from typing import Any

import pytest
from test_continuing import Replayable, engine_of, manager_of
from virtual_clock import run_virtual

from retrain.errors import ConfigError
from retrain.rollout import (
    AsyncRolloutManager,
    RolloutBatch,
    RolloutConfig,
    generate_rollout_batch,
    generate_rollout_batches,
)
from retrain.rollout.ahead import CollectingAhead
from retrain.rollout.filling import Batch
from retrain.types import Task

TASKS = [Task(f"task-{n}", f"question {n}") for n in range(6)]


def config_of(engine: Any, tokenizer: Any, **keys: Any) -> RolloutConfig:
    generate = partial(
        generate_rollout_batch, environment_cls=Replayable, endpoint=engine, tokenizer=tokenizer
    )
    return RolloutConfig(2, generate, n_samples_per_prompt=2, ahead=True, **keys)


def visits(batches: list[Any]) -> Counter[tuple[str, int]]:
    return Counter((g.task.id, g.visit) for batch in batches for g in batch.groups)


def test_batches_are_collected_while_the_caller_trains(tokenizer: Any) -> None:
    engine = engine_of("0")

    async def go() -> tuple[list[RolloutBatch], Any]:
        config = config_of(engine, tokenizer, over_sampling_factor=2.0, max_staleness=2)
        batches = []
        async with AsyncRolloutManager(TASKS, config) as manager:
            for version in range(1, 13):
                batches.append(await manager.generate_batch())
                await asyncio.sleep(0.2)
                async with manager.weights_changing():
                    assert not engine._running
                    engine.weight_version = str(version)
            state = json.loads(json.dumps(manager.state_dict()))
        resumed = AsyncRolloutManager(TASKS, config)
        resumed.load_state_dict(state)
        async with resumed:
            return [*batches, *[await resumed.generate_batch() for _ in range(4)]], state

    batches, state = run_virtual(go())
    assert set(visits(batches).values()) == {1} and state["rollout"]["updates"] == 12
    for number, batch in enumerate(batches[:12]):
        assert len(batch.samples) == 4
        for sample in batch.samples:
            sample.validate()
            assert all(number - int(version) <= 2 for version in sample.weight_versions)
    spans = [
        t.weight_spans for b in batches for g in b.groups for e in g.trajectories for t in e.turns
    ]
    assert any(spans), "some turns were written by several weights"


def test_the_weights_change_in_the_callers_thread_while_nothing_is_written(tokenizer: Any) -> None:
    engine = engine_of("0", delay=0.0005)
    seen: list[tuple[bool, bool]] = []

    def update() -> None:
        here = threading.current_thread() is threading.main_thread()
        seen.append((here, bool(engine._running)))
        engine.weight_version = str(len(seen))

    batches = generate_rollout_batches(
        TASKS, config_of(engine, tokenizer, max_staleness=1), update_weights=update
    )
    found = list(islice(batches, 4))
    batches.close()
    assert seen == [(True, False)] * 3
    assert set(visits(found).values()) == {1}
    threads = {thread.name for thread in threading.enumerate()}
    assert "retrain-loop" not in threads


def test_an_update_that_fails_is_the_callers(tokenizer: Any) -> None:
    def update() -> None:
        raise OSError("no link")

    batches = generate_rollout_batches(
        TASKS, config_of(engine_of("0", delay=0.0005), tokenizer), update_weights=update
    )
    next(batches)
    with pytest.raises(OSError, match="no link"):
        next(batches)


def test_nobody_collects_ahead_without_saying_when_weights_change(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match=r"ahead: .* give update_weights"):
        generate_rollout_batches(TASKS, config_of(engine_of("0"), tokenizer))


@pytest.mark.parametrize("after", [0.05, 0.4, 1.1, 2.3, 4.7])
def test_half_played_episodes_of_a_batch_ahead_go_on_after_a_kill(
    after: float, renderer: Any
) -> None:
    """The state is taken while the engine writes: its turns go on from their tokens elsewhere."""

    async def training(manager: CollectingAhead, engine: Any, batches: list[Batch]) -> None:
        while True:
            batches.append(await manager.collect())
            await asyncio.sleep(0.3)
            async with manager.weights_changing():
                engine.weight_version = str(int(engine.weight_version) + 1)

    async def killed() -> tuple[list[Batch], Any, Any]:
        engine, batches = engine_of("0"), list[Batch]()
        manager, buffer = manager_of(renderer, Replayable, engine)
        async with CollectingAhead(manager) as ahead:
            run = asyncio.create_task(training(ahead, engine, batches))
            await asyncio.sleep(after)
            before, position = list(batches), buffer.state_dict()
            state = json.loads(json.dumps(await manager.saved_state()))
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        return before, state, position

    async def resumed(state: Any, position: Any) -> tuple[list[Batch], int, int]:
        engine, batches = engine_of(str(state["updates"])), list[Batch]()
        manager, buffer = manager_of(renderer, Replayable, engine)
        buffer.load_state_dict(position)
        manager.load_state_dict(state, {task.id: task for task in buffer.tasks})
        async with CollectingAhead(manager) as ahead:
            batches += [await ahead.collect() for _ in range(6)]
            waiting = len(manager.requests())
        return batches, waiting, buffer.drawn

    before, state, position = run_virtual(killed())
    after_it, waiting, drawn = run_virtual(resumed(state, position))
    places = visits([*before, *after_it])
    assert set(places.values()) == {1} and places.total() + waiting == drawn
    records = sum(len(row["records"]) for row in state["pending"])
    assert records and sum(batch.tally.continued for batch in after_it) > 0
