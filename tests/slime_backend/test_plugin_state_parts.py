"""The two parts of a rollout's snapshot, the draws and the groups, are of one moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from held_world import Held

from backends.slime import plugin
from retrain.rollout.manager import RolloutManager


def visit(group: Any) -> tuple[str, int]:
    request = group[0].metadata["retrain_request"]
    return request["task"], request["visit"]


def visits(args: Any, source: Any, numbers: range) -> list[tuple[str, int]]:
    outputs = [plugin.generate_rollout(args, number, source) for number in numbers]
    return [visit(group) for output in outputs for group in output.samples]


def test_a_group_that_fails_during_a_snapshot_is_not_lost(
    slime_config: Any, slime_args: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout = {
        "engine": "plugin_world:scripted",
        "over_sampling_factor": 2.0,
        "failure": {"environment": "refill"},
        "max_failure_rate": 1.0,
    }
    sections = {"rollout": rollout, "environment": {"type": "held_world:Held"}}
    rows = [{"id": f"t{n}", "prompt": f"question {n}"} for n in range(40)]
    made = slime_config(num_iterations=100, n_samples_per_prompt=2, sections=sections, rows=rows)
    args = slime_args(made)
    order = [visit(group) for group in plugin.DataSource(args).get_samples(40)]
    held = {task for task, _ in order[2:4]}
    monkeypatch.setattr(Held, "tasks", held)
    monkeypatch.setattr(Held, "failing", asyncio.Event())
    source, saved = plugin.DataSource(args), RolloutManager.saved_state

    async def fail_meanwhile(manager: RolloutManager) -> Any:
        state = await saved(manager)
        Held.failing.set()
        async with asyncio.timeout(30):
            while source._buffer.drawn < 5:
                await asyncio.sleep(0)
        return state

    with monkeypatch.context() as patch:
        patch.setattr(RolloutManager, "saved_state", fail_meanwhile)
        before = visits(args, source, range(1))
    source.save(0)
    resumed = plugin.DataSource(args)
    resumed.load(0)
    after = visits(args, resumed, range(1, 8))
    trained = Counter([*before, *after])
    assert set(trained.values()) == {1}
    waiting = resumed._snapshots[7]["rollout"]
    left = {(row["task"], row["visit"]) for row in waiting["pending"]}
    left |= {(r["group"]["task"]["id"], r["group"]["visit"]) for r in waiting["finished"]}
    replaced = {drawn for drawn in order[2:4] if drawn not in trained}
    assert set(trained) | left | replaced == set(order[: resumed._buffer.drawn])
