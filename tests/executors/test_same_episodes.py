"""Without over-sampling, a seeded engine writes the same episodes however they are played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from executed_episodes import as_bytes, make_pool, requests, rollouts

from retrain.environment import make_environment_factory
from retrain.environment.base import Environment
from retrain.rendering import DeltaRenderer
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.types import Group

PATH, CONFIG = "executor_worlds:SteadyWorld", {"pause": 0.01, "fails": 0.05}


async def collected(
    renderer: DeltaRenderer, make: Callable[[], Environment], concurrency: int
) -> list[Group]:
    """Three batches of a manager."""
    bridge = rollouts(renderer, make)
    bridge = bridge.with_settings(replace(bridge.settings, concurrency=concurrency))
    buffer = DataBuffer([request.task for request in requests(8)], seed=5)
    async with bridge.managed(buffer, OverSampling(3)) as manager:
        return [group for _ in range(3) for group in (await manager.collect()).groups]


async def test_the_same_batches_at_any_concurrency_on_any_executor(
    renderer: DeltaRenderer,
) -> None:
    local = make_environment_factory(PATH, CONFIG)
    expected = as_bytes(await collected(renderer, local, 1))
    assert len(expected) == 9
    for concurrency in (3, 64):
        assert as_bytes(await collected(renderer, local, concurrency)) == expected
    pool = make_pool(PATH, CONFIG, workers=2, episodes_per_worker=3)
    try:
        for concurrency in (1, 64):
            assert as_bytes(await collected(renderer, pool.make, concurrency)) == expected
    finally:
        pool.close()
