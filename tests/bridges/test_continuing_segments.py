"""What stands before an environment that goes on: all of its interface, however often it restarts.

Also over rewritten histories, and in a worker that ends meanwhile.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest
from counting_worlds import CountingWorld, Replayable, Snapshots
from real_tokenizers import chat_template, qwen_tokenizer
from test_continuing import LIMITS, TASKS, engine_of, manager_of
from virtual_clock import run_virtual

from bridges import EnvironmentBridge
from bridges.continuing import record_episode, resume
from bridges.episode import Episode
from bridges.recorded import ContinuedEnvironment
from bridges.records import EpisodeRecord
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.base import Environment
from retrain.errors import WorkerLost
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, Message, Observation, StepResult, Trajectory

SEED = EpisodeSeed(7, "train", "t", 0, 0)
PARAMS = SamplingParams(max_tokens=50)


class Summaries(Snapshots):
    """Puts a summary in place of the history, from the second step on."""

    rewrites_history = True

    async def step(self, action: Action) -> StepResult:
        result = await super().step(action)
        if self.count < 2:
            return result
        summary = (Message("user", f"summary {self.count}"),)
        return result._replace(observation=Observation(summary, rewrite=True))


class Counted(CountingWorld):
    """Counts how many of it are made and closed."""

    made = closed = 0

    def __init__(self) -> None:
        super().__init__()
        Counted.made += 1

    async def close(self) -> None:
        Counted.closed += 1


class CountedReplayable(Counted, Replayable):
    """The same, and repeats itself."""


class Dying(Snapshots):
    """Loses its worker once, in its fourth step."""

    left = 0

    async def step(self, action: Action) -> StepResult:
        if self.count == 3 and Dying.left:
            Dying.left -= 1
            raise WorkerLost("its process ended")
        return await super().step(action)


def test_all_that_an_environment_offers_passes_through() -> None:
    offered = {name for name, _ in inspect.getmembers_static(Environment) if name[0] != "_"}
    assert {"snapshot", "restore", "rewrites_history", "replayable"} <= offered
    assert offered <= vars(ContinuedEnvironment).keys()


@pytest.mark.parametrize("world", [Snapshots, Summaries])
def test_it_goes_on_over_a_second_restart(
    renderer: DeltaRenderer, world: Callable[[], Environment]
) -> None:
    """Each process collects a little; the later ones begin with what was restored before."""

    async def process(life: int, state: Any, position: Any) -> Any:
        manager, buffer = manager_of(renderer, world, engine_of(str(life)))
        if state is not None:
            buffer.load_state_dict(position)
            manager.load_state_dict(state, {task.id: task for task in TASKS})
        async with manager:
            batches = [await manager.collect() for _ in range(1 if life else 3)]
            return batches, await manager.saved_state(), buffer.state_dict()

    state = position = None
    continued, played, segments = [], [], set()
    for life in range(5):
        batches, state, position = run_virtual(process(life, state, position))
        state = json.loads(json.dumps(state))
        continued.append(sum(batch.tally.continued for batch in batches))
        played += [t for b in batches for group in b.groups for t in group.trajectories]
        records = [r for row in state["pending"] for r in row["records"].values()]
        segments |= {len(r["segments"]) for r in records if r.get("snapshot") is not None}
    assert sum(bool(number) for number in continued[1:]) > 1
    assert {(t.status, t.reward) for t in played} == {(Status.COMPLETED, 1.0 + 2 + 3 + 4 + 400)}
    assert max(segments) > 1 if world is Summaries else segments == {1}
    authors = [{v for turn in t.turns for _, v in turn.spans} for t in played]
    assert any(len(versions) > 1 for versions in authors)


async def interrupted(
    bridge: EnvironmentBridge, turns: int, engine: ScriptedEngine
) -> tuple[EpisodeRecord, Trajectory]:
    """The record of an episode that has so many turns, and the episode as it ended."""
    seen: list[Episode] = []
    play = asyncio.create_task(
        bridge.run(TASKS[0], engine=engine, params=PARAMS, seed=SEED, watch=seen.append)
    )
    while not seen or len(seen[0].stream.turns) < turns or not seen[0].asking:
        await asyncio.sleep(0.01)
    record = await record_episode(seen[0], lambda session: None)
    assert record is not None
    return EpisodeRecord.of_json(json.loads(json.dumps(record.to_json()))), await play


async def go_on(
    bridge: EnvironmentBridge, turns: int, engine: Callable[[], ScriptedEngine]
) -> tuple[EpisodeRecord, Trajectory, Trajectory | None]:
    """The record, the episode as it was without an interruption, and as it goes on."""
    record, whole = await interrupted(bridge, turns, engine())
    again = await resume(bridge, record, TASKS[0], SEED, engine=engine(), params=PARAMS)
    return record, whole, again


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_segments_that_were_restored_are_those_that_were_recorded(
    renderer: DeltaRenderer, turns: int
) -> None:
    bridge = EnvironmentBridge(renderer, Summaries, LIMITS)
    record, whole, again = run_virtual(go_on(bridge, turns, lambda: engine_of("1")))
    assert len(record.segments) == turns and len(whole.segments) == 3
    assert again is not None and again.segments == whole.segments


def thinking(tokenizer: Any) -> ScriptedEngine:
    """Thinks in every turn, which the template drops from the turns before."""
    turn = tokenizer.encode("<think>\nhm\n</think>\n\nsay<|im_end|>", add_special_tokens=False)
    return ScriptedEngine(lambda *_: turn, token_delay=0.01, weight_version="1")


def test_segments_that_the_template_began_go_on_too(pytestconfig: pytest.Config) -> None:
    tokenizer = qwen_tokenizer(pytestconfig.cache.mkdir("tokenizers"))
    tokenizer.chat_template = chat_template("qwen3")
    bridge = EnvironmentBridge(load_renderer(tokenizer, history="template"), Snapshots, LIMITS)
    record, whole, again = run_virtual(go_on(bridge, 2, lambda: thinking(tokenizer)))
    assert len(record.segments) > 1
    assert again is not None and again.segments == whole.segments


def test_a_worker_lost_after_the_restart_costs_nothing_of_the_record(
    renderer: DeltaRenderer,
) -> None:
    """The repetition begins again: no recorded reply answers a turn that was newly written."""
    bridge = EnvironmentBridge(renderer, Dying, LIMITS)

    async def go() -> tuple[EpisodeRecord, Trajectory | None]:
        record, _ = await interrupted(bridge, 2, engine_of("1"))
        Dying.left = 1
        again = await resume(bridge, record, TASKS[0], SEED, engine=engine_of("2"), params=PARAMS)
        return record, again

    record, again = run_virtual(go())
    assert again is not None and again.status is Status.COMPLETED and Dying.left == 0
    assert again.turns[:2] == record.segments[0].turns
    assert [turn.weight_version for turn in again.turns] == ["1", "1", "2", "2"]
    assert again.turns[-1].reward == 4 + 400


@pytest.mark.parametrize("world", [Counted, CountedReplayable])
def test_every_environment_that_is_made_is_closed(
    renderer: DeltaRenderer, world: type[Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counted, "made", 0)
    monkeypatch.setattr(Counted, "closed", 0)
    bridge = EnvironmentBridge(renderer, world, LIMITS)
    *_, again = run_virtual(go_on(bridge, 2, lambda: engine_of("1")))
    assert (again is not None) == (world is CountedReplayable)
    assert Counted.made == Counted.closed == 2
