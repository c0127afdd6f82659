"""A buffer that several managers draw from, one after the other, loses none of its tasks."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import islice
from typing import Any

import pytest
from test_continuing import Replayable, engine_of
from virtual_clock import run_virtual

from retrain.rollout import (
    AsyncRolloutManager,
    DataBuffer,
    RolloutBatch,
    RolloutConfig,
    generate_rollout_batch,
    generate_rollout_batches,
)
from retrain.rollout.partial import longest_partial_first
from retrain.types import Task

TASKS = [Task(f"task-{n}", f"question {n}") for n in range(12)]


def config_of(tokenizer: Any, **keys: Any) -> RolloutConfig:
    generate = partial(
        generate_rollout_batch,
        environment_cls=Replayable,
        endpoint=engine_of("1"),
        tokenizer=tokenizer,
    )
    return RolloutConfig(2, generate, 2, over_sampling_factor=2.0, **keys)


def visits(batches: list[RolloutBatch]) -> Counter[tuple[str, int]]:
    return Counter((group.task.id, group.visit) for batch in batches for group in batch.groups)


def require_conserved(batches: list[RolloutBatch], buffer: DataBuffer) -> None:
    """Every drawn visit was trained on once, or is back in the buffer."""
    back = Counter((group.request.task.id, group.request.visit) for group in buffer.partial)
    places = visits(batches) + back
    assert set(places.values()) == {1}
    assert places.total() == buffer.drawn


@pytest.mark.parametrize("ahead", [False, True])
def test_a_manager_that_is_closed_gives_the_rest_back(tokenizer: Any, ahead: bool) -> None:
    config = config_of(tokenizer, ahead=ahead)
    buffer = DataBuffer(TASKS, seed=1)

    async def some(count: int) -> list[RolloutBatch]:
        async with AsyncRolloutManager(buffer, config) as manager:
            return [await manager.generate_batch() for _ in range(count)]

    async def go() -> None:
        batches: list[RolloutBatch] = []
        for _ in range(4):
            batches += await some(3)
            require_conserved(batches, buffer)
            assert buffer.partial

    run_virtual(go())


def test_what_was_given_back_comes_first_in_the_order_of_the_buffer_filter(tokenizer: Any) -> None:
    buffer = DataBuffer(TASKS, seed=1, buffer_filter=longest_partial_first)

    async def go() -> None:
        async with AsyncRolloutManager(buffer, config_of(tokenizer)) as manager:
            await manager.generate_batch()
        longest = sorted(buffer.partial, key=lambda group: -group.tokens)
        assert longest[0].tokens > 0
        assert buffer.draw(1) == [longest[0].request]

    run_virtual(go())


def test_the_state_after_closing_has_every_task_once(tokenizer: Any) -> None:
    async def first() -> tuple[RolloutBatch, Any]:
        async with AsyncRolloutManager(TASKS, config_of(tokenizer)) as manager:
            batch = await manager.generate_batch()
        return batch, json.loads(json.dumps(manager.state_dict()))

    async def second(state: Any) -> tuple[list[RolloutBatch], DataBuffer]:
        manager = AsyncRolloutManager(TASKS, config_of(tokenizer))
        manager.load_state_dict(state)
        async with manager:
            return [await manager.generate_batch() for _ in range(4)], manager.buffer

    batch, state = run_virtual(first())
    assert not state["rollout"]["pending"] and state["buffer"]["partial"]
    batches, buffer = run_virtual(second(state))
    require_conserved([batch, *batches], buffer)


def test_batches_in_several_goes_visit_every_task_once(tokenizer: Any) -> None:
    buffer, batches = DataBuffer(TASKS, seed=1), list[RolloutBatch]()
    for _ in range(2):
        generated = generate_rollout_batches(buffer, config_of(tokenizer))
        batches += islice(generated, 2)
        generated.close()
        require_conserved(batches, buffer)
