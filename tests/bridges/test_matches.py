"""Several agents in one environment: every seat of a match is an episode of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from nim_match import FIRST, SECOND, Nim, TakesOne
from virtual_clock import run_virtual

from bridges import (
    EnvironmentBridge,
    EpisodeLimits,
    FailureAction,
    FailurePolicy,
    RewardBridge,
    RolloutBridge,
    RolloutSettings,
)
from retrain.engine.base import Generation, SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.registry import make_environment_factory
from retrain.errors import BackendFailure, Boundary, ConfigError, EngineFailure
from retrain.rendering import DeltaRenderer
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.filling import OverSampling
from retrain.rollout.request import GroupRequest
from retrain.sample import Status
from retrain.types import FinishReason, Group, StopReason, Task, Trajectory

STOP = "<|im_end|>"
REQUESTS = [GroupRequest(i, Task(f"t{i}", f"Game {i}."), 0) for i in range(3)]
LIMITS = EpisodeLimits(max_response_len=600)
MASKING = FailurePolicy(actions={}, max_failure_rate=1.0)
ROLES = (FIRST, SECOND)

Build = Callable[..., RolloutBridge]


def by_seed(ids: Any, params: Any, session: str, seed: int) -> str:
    return f"take {seed % 3 + 1}{STOP}"


@pytest.fixture
def talker(encode: Any) -> ScriptedEngine:
    return ScriptedEngine(by_seed, encode=encode)


@pytest.fixture(autouse=True)
def every_match_is_closed() -> Iterator[None]:
    Nim.opened = Nim.closed = 0
    yield
    assert Nim.opened == Nim.closed


@pytest.fixture
def build(renderer: DeltaRenderer) -> Build:
    def make(
        engine: Any,
        *,
        environment: str = "nim_match:Nim",
        arguments: Any = None,
        agents: Any = None,
        limits: EpisodeLimits = LIMITS,
        **settings: Any,
    ) -> RolloutBridge:
        factory = make_environment_factory(environment, arguments, agents)
        options = {"params": SamplingParams(max_tokens=200), "n_samples": 4, **settings}
        calculator = RewardCalculator([RewardComponent("environment", ComponentKind.ENVIRONMENT)])
        return RolloutBridge(
            EnvironmentBridge(renderer, factory, limits),
            RewardBridge(calculator),
            engine,
            RolloutSettings(**options),
        )

    return make


def episodes(groups: Sequence[Group]) -> list[Trajectory]:
    return [episode for group in groups for episode in group.trajectories]


def streams(groups: Sequence[Group]) -> Any:
    return [[(t.agent, t.segments, t.reward) for t in group.trajectories] for group in groups]


async def test_each_seat_is_an_episode_with_its_own_exact_stream(
    build: Build, talker: ScriptedEngine, renderer: DeltaRenderer
) -> None:
    (group,) = await build(talker, arguments={"stones": 5}).collect(REQUESTS[:1])
    assert [t.agent for t in group.trajectories] == [*ROLES, *ROLES]
    assert [t.seed.sample_index for t in group.trajectories] == [0, 1, 2, 3]
    for episode in group.trajectories:
        (segment,) = episode.segments
        seeds = [episode.seed.turn(number) for number in range(len(segment.turns))]
        asked = {call.seed: call.input_ids for call in talker.calls}
        assert all(segment.ids[: len(asked[seed])] == asked[seed] for seed in seeds)
        written = [turn.output_ids for turn in segment.turns]
        ends = [len(asked[seed]) for seed in seeds]
        assert [segment.ids[n : n + len(w)] for n, w in zip(ends, written, strict=True)] == written
        assert f"You play {episode.agent}." in renderer.decode(segment.prompt_ids)
        replies = "".join(renderer.decode(turn.env_ids) for turn in segment.turns)
        assert f"{episode.agent} takes" not in replies
    first, second = group.trajectories[:2]
    told = [renderer.decode(turn.env_ids) for turn in first.turns[:-1]]
    moves = [turn.info["taken"] for turn in second.turns]
    assert all(f"second takes {n}." in text for n, text in zip(moves, told, strict=False))


async def test_rewards_and_success_are_the_seats_own(build: Build, talker: Any) -> None:
    (group,) = await build(talker).collect(REQUESTS[:1])
    for first, second in zip(group.trajectories[::2], group.trajectories[1::2], strict=True):
        won = {t.agent: t.turns[-1].info["success"] for t in (first, second)}
        assert sorted(won.values()) == [False, True]
        for episode in (first, second):
            taken = sum(turn.info["taken"] for turn in episode.turns)
            assert episode.reward == pytest.approx(won[episode.agent] * 2 - 1 + taken / 100)
            assert episode.stop_reason is StopReason.TERMINATED


async def test_advantages_compare_an_agent_with_itself(build: Build, talker: Any) -> None:
    (group,) = await build(talker, n_samples=8).collect(REQUESTS[:1])
    for role in range(2):
        assert sum(group.advantages[role::2]) == pytest.approx(0.0, abs=1e-6)
        assert any(group.advantages[role::2])


@pytest.mark.parametrize("concurrency", [1, 2, 3, 64])
async def test_concurrency_changes_nothing(build: Build, talker: Any, concurrency: int) -> None:
    expected = streams(await build(talker, concurrency=12).collect(REQUESTS))
    bridge = build(talker, concurrency=concurrency)
    assert streams(await asyncio.wait_for(bridge.collect(REQUESTS), 60)) == expected


async def test_matches_in_play_keep_to_the_concurrency(build: Build, encode: Any) -> None:
    most = 0

    async def look(ids: Any, params: Any, session: str, seed: int) -> str:
        nonlocal most
        most = max(most, Nim.opened - Nim.closed)
        await asyncio.sleep(0)
        return by_seed(ids, params, session, seed)

    await build(ScriptedEngine(look, encode=encode), concurrency=5).collect(REQUESTS)
    assert most == 2


async def test_a_failing_environment_fails_its_whole_match(build: Build, talker: Any) -> None:
    bridge = build(talker, arguments={"fails_at": 3}, policy=MASKING)
    played = episodes(await bridge.collect(REQUESTS[:1]))
    assert {t.status for t in played} == {Status.FAILED}
    assert all(t.error and "the table broke" in t.error.reason for t in played)
    assert all(t.error and t.error.boundary is Boundary.ENVIRONMENT for t in played)


async def test_a_seat_that_fails_takes_its_match_along_and_no_other(
    build: Build, encode: Any
) -> None:
    def refuses_the_second(ids: Any, params: Any, session: str, seed: int) -> str:
        if seed == broken.turn(1):
            raise EngineFailure("the server is gone")
        return by_seed(ids, params, session, seed)

    engine = ScriptedEngine(refuses_the_second, encode=encode)
    whole = await build(ScriptedEngine(by_seed, encode=encode)).collect(REQUESTS[:1])
    broken = whole[0].trajectories[1].seed
    limits = replace(LIMITS, engine_retries=0)
    bridge = build(engine, limits=limits, policy=MASKING)
    (group,) = await bridge.collect(REQUESTS[:1])
    first, second, *others = group.trajectories
    assert (first.status, second.status) == (Status.FAILED, Status.FAILED)
    assert second.error and "the server is gone" in second.error.reason
    assert first.error and "agent 'second', which failed" in first.error.reason
    assert first.error.boundary is second.error.boundary is Boundary.ENGINE
    assert [t.status for t in others] == [Status.COMPLETED] * 2
    assert first.turns and group.advantages[:2] == (0.0, 0.0)


async def test_an_engine_failure_ends_the_run_as_in_other_episodes(
    build: Build, encode: Any
) -> None:
    def breaks(*_: Any) -> str:
        raise EngineFailure("the server is gone")

    bridge = build(ScriptedEngine(breaks, encode=encode))
    with pytest.raises(BackendFailure, match="the server is gone"):
        await bridge.collect(REQUESTS)


async def test_a_match_is_tried_again_as_a_whole(build: Build, encode: Any) -> None:
    asked = 0

    def breaks_once(ids: Any, params: Any, session: str, seed: int) -> str:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise EngineFailure("the server is gone")
        return by_seed(ids, params, session, seed)

    actions = {Boundary.ENGINE: FailureAction.RETRY}
    policy = FailurePolicy(actions=actions, retries=1, max_failure_rate=1.0)
    limits = replace(LIMITS, engine_retries=0)
    engine = ScriptedEngine(breaks_once, encode=encode)
    played = episodes(
        await build(engine, limits=limits, policy=policy, n_samples=2).collect(REQUESTS[:1])
    )
    assert [t.status for t in played] == [Status.COMPLETED] * 2
    assert {t.seed.attempt for t in played} == {1}


@pytest.mark.parametrize("forfeits", [False, True])
async def test_a_limit_cuts_one_seat_and_the_environment_says_what_follows(
    build: Build, talker: Any, forfeits: bool
) -> None:
    limits = replace(LIMITS, max_turns=2)
    arguments = {"stones": 40, "forfeits": forfeits}
    bridge = build(talker, limits=limits, arguments=arguments, n_samples=2)
    first, second = episodes(await bridge.collect(REQUESTS[:1]))
    assert (first.status, first.stop_reason) == (Status.TRUNCATED, StopReason.MAX_TURNS)
    assert first.valid and second.valid
    earned = [sum(turn.info["taken"] for turn in t.turns) / 100 for t in (first, second)]
    if forfeits:
        assert second.stop_reason is StopReason.TERMINATED
        assert second.turns[-1].info["success"] is True
        assert [first.reward, second.reward] == pytest.approx([earned[0] - 1, earned[1] + 1])
    else:
        assert second.stop_reason is StopReason.ENVIRONMENT_TRUNCATED
        assert [first.reward, second.reward] == pytest.approx(earned)


async def test_what_the_end_says_of_an_agent_that_has_left_is_kept(
    build: Build, talker: Any
) -> None:
    limits = replace(LIMITS, max_turns=2)
    bridge = build(talker, limits=limits, arguments={"stones": 40, "forfeits": True}, n_samples=2)
    first, _ = episodes(await bridge.collect(REQUESTS[:1]))
    assert first.stop_reason is StopReason.MAX_TURNS
    assert first.turns[-1].info["success"] is False and "taken" in first.turns[-1].info


def test_a_seat_without_room_for_a_turn_leaves_the_match(build: Build, talker: Any) -> None:
    limits = replace(LIMITS, max_context_len=10)
    bridge = build(talker, limits=limits, n_samples=2)

    async def play() -> list[Group]:
        return await asyncio.wait_for(bridge.collect(REQUESTS[:1]), 1e6)

    first, second = episodes(run_virtual(play()))
    assert first.stop_reason is StopReason.CONTEXT_OVERFLOW and not first.turns
    assert second.status is Status.ABORTED


async def test_a_seat_that_never_acts_is_aborted_and_not_failed(build: Build, talker: Any) -> None:
    bridge = build(talker, arguments={"stones": 1}, n_samples=4)
    (group,) = await bridge.collect(REQUESTS[:1])
    winner, idle = group.trajectories[:2]
    assert (winner.status, winner.turns[-1].info["success"]) == (Status.COMPLETED, True)
    assert (idle.status, idle.segments, idle.error) == (Status.ABORTED, (), None)
    assert not idle.valid


class AbortingEngine(ScriptedEngine):
    """Ends the second turn that it is asked for as if it had been aborted."""

    async def generate(self, *arguments: Any, **options: Any) -> Generation:
        written = await super().generate(*arguments, **options)
        if len(self.calls) == 2:
            return replace(written, finish_reason=FinishReason.ABORT)
        return written


async def test_a_seat_that_is_aborted_aborts_its_match(build: Build, encode: Any) -> None:
    engine = AbortingEngine(by_seed, encode=encode)
    played = episodes(await build(engine, n_samples=2).collect(REQUESTS[:1]))
    assert {t.status for t in played} == {Status.ABORTED}
    assert all(t.error is None for t in played)


def test_deadlines_stand_still_while_others_think(build: Build, encode: Any) -> None:
    async def slow(ids: Any, params: Any, session: str, seed: int) -> str:
        await asyncio.sleep(50)
        return by_seed(ids, params, session, seed)

    limits = replace(LIMITS, step_timeout=1.0)
    engine = ScriptedEngine(slow, encode=encode)
    bridge = build(engine, limits=limits, n_samples=2, episode_timeout=300.0)
    played = episodes(run_virtual(bridge.collect(REQUESTS[:1])))
    assert {t.status for t in played} == {Status.COMPLETED}


def test_an_environment_that_hangs_fails_its_match(
    build: Build, talker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(self: Nim, agent: str) -> Any:
        await asyncio.sleep(1e6)

    monkeypatch.setattr(Nim, "observe", hangs)
    limits = replace(LIMITS, step_timeout=1.0)
    bridge = build(talker, limits=limits, n_samples=2, policy=MASKING)
    played = episodes(run_virtual(bridge.collect(REQUESTS[:1])))
    assert all(t.error and "observe: no answer within 1 s" in t.error.reason for t in played)


async def test_a_policy_player_is_played_and_not_trained(build: Build, talker: Any) -> None:
    (group,) = await build(talker, agents={SECOND: "policy"}).collect(REQUESTS[:1])
    trained, masked = group.trajectories[::2], group.trajectories[1::2]
    assert all(t.valid for t in trained) and not any(t.valid for t in masked)
    assert all(t.masked and t.turns for t in masked)
    assert group.advantages[1::2] == (0.0, 0.0) and any(group.advantages[::2])


async def test_players_are_closed_where_another_cannot_be_made(build: Build, talker: Any) -> None:
    TakesOne.made = TakesOne.closed = 0
    one = "nim_match:TakesOne"
    agents = {"third": one, "fourth": {"name": one, "broken": True}}
    bridge = build(talker, environment="nim_match:NimOfFour", agents=agents, policy=MASKING)
    played = episodes(await bridge.collect(REQUESTS[:1]))
    assert all(t.error and "ValueError: no chair" in t.error.reason for t in played)
    assert TakesOne.made == TakesOne.closed == 2


async def test_one_trained_agent_is_an_ordinary_episode(build: Build, talker: Any) -> None:
    bridge = build(talker, agents={SECOND: "nim_match:takes_one"}, n_samples=3)
    (group,) = await bridge.collect(REQUESTS[:1])
    assert [t.agent for t in group.trajectories] == [None] * 3
    assert {t.status for t in group.trajectories} == {Status.COMPLETED}
    assert any(
        "second takes 1." in bridge.environment.renderer.decode(turn.env_ids)
        for t in group.trajectories
        for turn in t.turns
    )


def test_a_group_that_cannot_be_parted_into_matches_is_refused(build: Build) -> None:
    with pytest.raises(ConfigError, match=r"\(--samples\): 5 is no multiple of the 2 agents"):
        build(ScriptedEngine([]), n_samples=5)


async def test_a_single_seat_cannot_be_played(build: Build, talker: Any) -> None:
    with pytest.raises(ConfigError, match="played together"):
        await build(talker).episode(REQUESTS[0], 0)


@pytest.mark.parametrize("partial", [True, False])
def test_over_sampling_suspends_whole_matches_and_loses_none(
    build: Build, encode: Any, partial: bool
) -> None:
    """Half-played matches go on from their tokens, and so give what an undisturbed run gives."""

    async def slow(ids: Any, params: Any, session: str, seed: int) -> str:
        await asyncio.sleep(seed % 7)
        return by_seed(ids, params, session, seed)

    async def play() -> list[Group]:
        bridge = build(ScriptedEngine(slow, encode=encode), concurrency=6)
        tasks = [Task(f"t{i}", f"Game {i}.") for i in range(12)]
        how = OverSampling(2, 3.0, partial=partial)
        found: list[Group] = []
        async with bridge.managed(DataBuffer(tasks, seed=1), how) as manager:
            for _ in range(4):
                batch = await manager.collect()
                assert partial or not batch.tally.carried
                found += batch.groups
                await asyncio.sleep(3600)
        return found

    groups = run_virtual(play())
    assert len(groups) == 8 and {t.status for t in episodes(groups)} == {Status.COMPLETED}
    requests = [GroupRequest(g.index, g.task, g.visit) for g in groups]
    engine = ScriptedEngine(by_seed, encode=encode)
    assert streams(run_virtual(build(engine).collect(requests))) == streams(groups)


def test_a_resumed_run_keeps_finished_matches_and_begins_the_others_afresh(
    build: Build, encode: Any
) -> None:
    tasks = [Task(f"t{i}", f"Game {i}.") for i in range(12)]

    async def slow(ids: Any, params: Any, session: str, seed: int) -> str:
        await asyncio.sleep(seed % 7)
        return by_seed(ids, params, session, seed)

    buffer = DataBuffer(tasks, seed=1)

    def manager() -> Any:
        bridge = build(ScriptedEngine(slow, encode=encode), n_samples=8)
        return bridge.managed(buffer, OverSampling(2, 3.0))

    async def play() -> list[Group]:
        async with manager() as before:
            found = list((await before.collect()).groups)
            state = json.loads(json.dumps(await before.saved_state()))
        kept = [len(row["records"]) for row in state["pending"]]
        assert set(kept) - {0, 8} and not any(number % 2 for number in kept)
        async with manager() as after:
            after.load_state_dict(state, {task.id: task for task in tasks})
            return [*found, *(await after.collect()).groups]

    groups = run_virtual(play())
    requests = [GroupRequest(g.index, g.task, g.visit) for g in groups]
    undisturbed = build(ScriptedEngine(by_seed, encode=encode), n_samples=8)
    assert streams(run_virtual(undisturbed.collect(requests))) == streams(groups)
