"""Episodes that a restart, an abort or a limit interrupted go on from their tokens."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from counting_worlds import STEPS, CountingWorld, Fickle, Replayable, Snapshots
from virtual_clock import run_virtual

from bridges import EnvironmentBridge, EpisodeLimits, RewardBridge, RolloutBridge, RolloutSettings
from bridges.continuing import continue_episode, record_episode, resume
from bridges.episode import Episode
from bridges.records import EpisodeRecord
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.base import Environment
from retrain.errors import EnvironmentFailure
from retrain.rendering import DeltaRenderer
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import Batch, OverSampling
from retrain.rollout.manager import RolloutManager
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import FinishReason, StopReason, Task, Trajectory

TASKS = [Task(f"task-{n}", f"question {n}") for n in range(8)]
LIMITS = EpisodeLimits(max_response_len=2000, max_tokens_per_turn=200)


def engine_of(version: str, delay: float = 0.01) -> ScriptedEngine:
    """Few tokens for most turns, very many for some."""

    def write(ids: Sequence[int], params: SamplingParams, session: str, seed: int) -> list[int]:
        rng = random.Random(seed)
        length = 120 if rng.random() < 0.2 else 3
        ids = [rng.randrange(1000, 9000) for _ in range(min(length, params.max_tokens - 1))]
        return [*ids, min(params.stop_token_ids)]

    return ScriptedEngine(write, token_delay=delay, weight_version=version)


def manager_of(
    renderer: DeltaRenderer, world: Callable[[], Environment], engine: ScriptedEngine
) -> tuple[RolloutManager, DataBuffer]:
    settings = RolloutSettings(SamplingParams(max_tokens=200), n_samples=2, run_seed=3)
    calculator = RewardCalculator([RewardComponent("environment", ComponentKind.ENVIRONMENT)])
    bridge = RolloutBridge(
        EnvironmentBridge(renderer, world, LIMITS), RewardBridge(calculator), engine, settings
    )
    buffer = DataBuffer(TASKS, seed=1)
    return bridge.managed(buffer, OverSampling(2, 2.0)), buffer


def before_and_after(
    renderer: DeltaRenderer, world: Callable[[], Environment]
) -> tuple[list[Batch], Any, list[Batch], Any]:
    """Three batches, a restart, and ten more; with the saved and the last state."""

    async def first() -> tuple[list[Batch], Any, Any]:
        manager, buffer = manager_of(renderer, world, engine_of("1"))
        async with manager:
            batches = [await manager.collect() for _ in range(3)]
            return batches, await manager.saved_state(), buffer.state_dict()

    async def second(state: Any, position: Any) -> tuple[list[Batch], Any]:
        manager, buffer = manager_of(renderer, world, engine_of("2"))
        buffer.load_state_dict(position)
        manager.load_state_dict(state, {task.id: task for task in TASKS})
        async with manager:
            batches = [await manager.collect() for _ in range(10)]
            assert buffer.drawn == 2 * 13 + len(manager.requests())
            return batches, await manager.saved_state()

    batches, state, position = run_virtual(first())
    saved = json.loads(json.dumps(state))
    STEPS.clear()
    later, last = run_virtual(second(saved, json.loads(json.dumps(position))))
    return batches, saved, later, last


def visits(batches: Sequence[Batch]) -> Counter[tuple[str, int]]:
    return Counter((group.task.id, group.visit) for b in batches for group in b.groups)


def recorded_tokens(state: Any) -> dict[tuple[int, int], list[int]]:
    """(group, member) -> the tokens that the first process wrote, in order."""
    found = {}
    for row in state["pending"]:
        for member, record in row["records"].items():
            segments = record.get("trajectory", record)["segments"]
            turns = [turn for segment in segments for turn in segment["turns"]]
            turns += [record["partial"]] if record.get("partial") else []
            found[row["index"], int(member)] = [i for turn in turns for i in turn["output_ids"]]
    return {key: tokens for key, tokens in found.items() if tokens}


def over(state: Any) -> set[tuple[int, int]]:
    """The episodes of half-played groups that were over."""
    return {
        (row["index"], int(member))
        for row in state["pending"]
        for member, record in row["records"].items()
        if "trajectory" in record
    }


def able_to_go_on(state: Any, world: Callable[[], Environment]) -> set[tuple[int, int]]:
    """A world that was in the middle of a step gave no snapshot; one that is over needs none."""
    return {
        (row["index"], int(member))
        for row in state["pending"]
        for member, record in row["records"].items()
        if world is Replayable or "trajectory" in record or record["snapshot"] is not None
    }


@pytest.mark.parametrize("world", [Replayable, Snapshots])
def test_half_played_episodes_go_on_after_a_restart(
    renderer: DeltaRenderer, world: Callable[[], Environment]
) -> None:
    before, saved, after, _ = before_and_after(renderer, world)
    recorded = recorded_tokens(saved)
    able = able_to_go_on(saved, world)
    assert recorded.keys() & able
    assert set(visits([*before, *after]).values()) == {1}
    continued = 0
    for group in (group for batch in after for group in batch.groups):
        for member, episode in enumerate(group.trajectories):
            tokens = recorded.get((group.index, member))
            if tokens is None or (group.index, member) not in able:
                continue
            written = [i for turn in episode.turns for i in turn.output_ids]
            assert written[: len(tokens)] == tokens
            versions = [v for turn in episode.turns for n, v in turn.spans for _ in range(n)]
            assert versions == ["1"] * len(tokens) + ["2"] * (len(written) - len(tokens))
            assert episode.reward == 1 + 2 + 3 + 4 + 400
            continued += (group.index, member) not in over(saved)
    assert continued >= 1
    assert sum(batch.tally.continued for batch in after) >= continued


def test_a_restored_world_repeats_no_step(renderer: DeltaRenderer) -> None:
    """What the world said is said again; its first two steps are not made again."""
    bridge = EnvironmentBridge(renderer, Snapshots, LIMITS)
    seed = EpisodeSeed(7, "train", "t", 0, 0)

    async def go() -> Trajectory | None:
        engine, seen = engine_of("1"), list[Episode]()
        params = SamplingParams(max_tokens=50)
        play = asyncio.create_task(
            bridge.run(TASKS[0], engine=engine, params=params, seed=seed, watch=seen.append)
        )
        while not seen or len(seen[0].stream.turns) < 2 or not seen[0].asking:
            await asyncio.sleep(0.01)
        record = await record_episode(seen[0], lambda session: None)
        assert record is not None and record.snapshot == {"count": 2, "seed": seed.environment}
        whole = await play
        STEPS.clear()
        saved = EpisodeRecord.of_json(json.loads(json.dumps(record.to_json())))
        again = await resume(bridge, saved, TASKS[0], seed, engine=engine_of("1"), params=params)
        assert again is not None and again.segments == whole.segments
        return again

    again = run_virtual(go())
    assert again is not None and again.turns[-1].reward == 4 + 400
    assert STEPS["Snapshots"] == 2


@pytest.mark.parametrize("world", [CountingWorld, Fickle])
def test_what_cannot_go_on_begins_afresh_with_the_same_seeds(
    renderer: DeltaRenderer, world: Callable[[], Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    moods = iter(range(10_000))
    monkeypatch.setattr(Fickle, "mood", property(lambda self: next(moods)), raising=True)
    before, _, after, _ = before_and_after(renderer, world)
    assert set(visits([*before, *after]).values()) == {1}
    for group in (group for batch in after for group in batch.groups):
        for episode in group.trajectories:
            assert episode.status is Status.COMPLETED, episode.error


def test_a_second_restart_keeps_what_the_first_one_kept(renderer: DeltaRenderer) -> None:
    async def begin() -> Any:
        manager, _ = manager_of(renderer, Replayable, engine_of("1"))
        async with manager:
            await manager.collect()
            return await manager.saved_state()

    async def go_on(state: Any) -> Any:
        manager, _ = manager_of(renderer, Replayable, engine_of("2"))
        manager.load_state_dict(state, {task.id: task for task in TASKS})
        async with manager:
            return await manager.saved_state()

    state = run_virtual(begin())
    again = run_virtual(go_on(json.loads(json.dumps(state))))
    assert recorded_tokens(again) == recorded_tokens(state)


async def episode(
    bridge: EnvironmentBridge, engine: ScriptedEngine, abort_after: float | None = None
) -> Trajectory:
    seed = EpisodeSeed(7, "train", "t", 0, 0)
    play = asyncio.create_task(
        bridge.run(TASKS[0], engine=engine, params=SamplingParams(max_tokens=50), seed=seed)
    )
    if abort_after is not None:
        await asyncio.sleep(abort_after)
        for call in engine.calls[-1:]:
            await engine.abort(call.session_id)
    return await play


@pytest.mark.parametrize("after", [0.02, 0.1])
def test_an_aborted_episode_goes_on(renderer: DeltaRenderer, after: float) -> None:
    bridge = EnvironmentBridge(renderer, Replayable, LIMITS)
    aborted = run_virtual(episode(bridge, engine_of("1"), after))
    assert aborted.status is Status.ABORTED
    params = SamplingParams(max_tokens=50)
    whole = run_virtual(continue_episode(bridge, aborted, engine=engine_of("2"), params=params))
    assert whole.status is Status.COMPLETED and len(whole.turns) == 4
    done = [i for turn in aborted.turns for i in turn.output_ids]
    assert [i for turn in whole.turns for i in turn.output_ids][: len(done)] == done
    assert {v for turn in whole.turns for _, v in turn.spans} >= {"2"}
    for one, other in zip(aborted.turns, whole.turns, strict=False):
        length = len(one.output_logprobs)
        assert other.output_logprobs[:length] == one.output_logprobs


def test_an_episode_cut_by_its_length_goes_on_within_wider_bounds(
    renderer: DeltaRenderer,
) -> None:
    narrow = replace(LIMITS, max_response_len=40)
    cut = run_virtual(episode(EnvironmentBridge(renderer, Replayable, narrow), engine_of("1")))
    assert cut.stop_reason is StopReason.MAX_RESPONSE_LEN
    bridge = EnvironmentBridge(renderer, Replayable, narrow)
    params = SamplingParams(max_tokens=200)
    for bound in (80, 2000):
        wider = replace(LIMITS, max_response_len=bound)
        whole = run_virtual(
            continue_episode(bridge, cut, engine=engine_of("2"), params=params, limits=wider)
        )
        assert whole.segments[0].ids[: len(cut.segments[0].ids)] == cut.segments[0].ids
        assert len(whole.segments[0].response_ids) <= bound
    assert whole.status is Status.COMPLETED


def test_an_episode_of_a_world_without_a_way_back_is_refused(renderer: DeltaRenderer) -> None:
    bridge = EnvironmentBridge(renderer, CountingWorld, LIMITS)
    aborted = run_virtual(episode(bridge, engine_of("1"), 0.02))
    assert aborted.turns and aborted.turns[-1].finish_reason is FinishReason.ABORT
    params = SamplingParams(max_tokens=50)
    with pytest.raises(EnvironmentFailure, match="neither declares itself replayable nor"):
        run_virtual(continue_episode(bridge, aborted, engine=engine_of("2"), params=params))
