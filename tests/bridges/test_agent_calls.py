"""The plain calls: prompts in, samples out, without a configuration or a framework."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import pytest
from seeded_episodes import SeededModel, SeededWorld
from test_continuing import Replayable, engine_of
from virtual_clock import run_virtual

from retrain.engine.base import Generation
from retrain.engine.scripted import ScriptedEngine
from retrain.errors import BackendFailure, ConfigError, RewardFailure
from retrain.rollout import (
    AsyncRolloutManager,
    DataBuffer,
    RolloutBatch,
    RolloutConfig,
    agent_rollout_to_sample,
    generate_rollout_batch,
    generate_rollout_batches,
)
from retrain.rollout.filters import check_reward_nonzero_std
from retrain.sample import Sample, Status
from retrain.types import Group, Task

TASKS = [Task(f"task-{n}", f"question {n}") for n in range(6)]


@pytest.fixture
def generate(renderer: Any, tokenizer: Any) -> Any:
    model = SeededModel(renderer)
    return partial(
        generate_rollout_batch, environment_cls=SeededWorld, endpoint=model, tokenizer=tokenizer
    )


async def test_one_prompt_is_one_sample(renderer: Any, tokenizer: Any) -> None:
    model = SeededModel(renderer)
    play = partial(
        agent_rollout_to_sample,
        "What is 5 + 3?",
        environment_cls=SeededWorld,
        endpoint=model,
        tokenizer=tokenizer,
    )
    sample = await play(max_turns=3)
    sample.validate()
    assert sample.prompt == "What is 5 + 3?" and sample.reward is not None
    assert {*sample.loss_mask} == {0, 1}
    again = await play(max_turns=3)
    assert again.tokens == sample.tokens
    other = await play(max_turns=3, seed=1)
    assert other.tokens != sample.tokens


async def test_a_prompt_that_stands_twice_is_a_group(generate: Any) -> None:
    samples = await generate([TASKS[0], TASKS[0], TASKS[1]])
    assert len(samples) == 3
    assert samples[0].tokens != samples[1].tokens
    assert samples[0].prompt_ids == samples[1].prompt_ids


async def test_batches_hold_groups_with_advantages(generate: Any) -> None:
    config = RolloutConfig(2, generate, n_samples_per_prompt=4, filter_fn=check_reward_nonzero_std)
    async with AsyncRolloutManager(TASKS, config) as manager:
        batches = [await manager.generate_batch() for _ in range(4)]
    for batch in batches:
        assert len(batch.samples) == 8 and len(batch.groups) == 2
        assert batch.tokens == [sample.tokens for sample in batch.samples]
        for start, group in zip((0, 4), batch.groups, strict=True):
            rows = batch.samples[start : start + 4]
            assert tuple(row.advantage for row in rows) == group.advantages
            assert [row.reward for row in rows] == [t.reward for t in group.trajectories]
            assert sum(group.advantages) == pytest.approx(0.0, abs=1e-6)
    ids = Counter(sample.rollout_id for batch in batches for sample in batch.samples)
    assert set(ids.values()) == {1}


@pytest.mark.parametrize("concurrent", [1, 4])
async def test_batches_follow_from_the_seeds_alone(generate: Any, concurrent: int) -> None:
    async def tokens() -> Any:
        config = RolloutConfig(concurrent, generate, n_samples_per_prompt=2)
        async with AsyncRolloutManager(DataBuffer(TASKS, seed=4), config) as manager:
            batches = [await manager.generate_batch() for _ in range(8 // concurrent)]
        return [(g.task.id, t.segments) for b in batches for g in b.groups for t in g.trajectories]

    found = await tokens()
    assert found == await tokens()
    wide = RolloutConfig(8, generate, n_samples_per_prompt=2)
    async with AsyncRolloutManager(DataBuffer(TASKS, seed=4), wide) as manager:
        batch = await manager.generate_batch()
    assert found == [(g.task.id, t.segments) for g in batch.groups for t in g.trajectories]


def test_half_played_groups_go_on_in_the_next_batch(tokenizer: Any) -> None:
    async def go() -> list[RolloutBatch]:
        engine = engine_of("1")
        generate = partial(
            generate_rollout_batch,
            environment_cls=Replayable,
            endpoint=engine,
            tokenizer=tokenizer,
        )
        config = RolloutConfig(2, generate, n_samples_per_prompt=2, over_sampling_factor=2.0)
        batches = []
        async with AsyncRolloutManager(TASKS, config) as manager:
            for version in range(12):
                engine.weight_version = str(version)
                batches.append(await manager.generate_batch())
                assert not engine._running
            state = json.loads(json.dumps(manager.state_dict()))
        resumed = AsyncRolloutManager(TASKS, config)
        resumed.load_state_dict(state)
        async with resumed:
            return [*batches, *[await resumed.generate_batch() for _ in range(6)]]

    batches = run_virtual(go())
    visits = Counter((g.task.id, g.visit) for batch in batches for g in batch.groups)
    assert set(visits.values()) == {1}
    spans = [
        t.weight_spans for b in batches for g in b.groups for e in g.trajectories for t in e.turns
    ]
    assert any(spans), "some turns were written by several weights"
    assert sum(batch.tally.carried for batch in batches) > 0


def by_hand(reward: float, length: int) -> Sample:
    return Sample(
        tokens=[1, 2, *range(10, 10 + length)],
        response="x" * length,
        response_length=length,
        loss_mask=[1] * length,
        rollout_log_probs=[-0.5] * length,
        reward=reward,
        status=Status.COMPLETED,
    )


async def test_any_function_that_gives_samples_will_do() -> None:
    asked: list[str] = []

    async def generate(tasks: Any) -> list[Sample]:
        asked.extend(task.prompt for task in tasks)
        return [by_hand(0.0, 3 + n) for n, _ in enumerate(tasks)]

    async def longer(sample: Sample) -> float:
        return float(sample.response_length)

    def long_enough(group: Group) -> bool:
        return all(len(t.turns[0].output_ids) >= 3 for t in group.trajectories)

    config = RolloutConfig(2, generate, 3, reward_fn=longer, filter_fn=long_enough)
    async with AsyncRolloutManager(["one", "two"], config) as manager:
        batch = await manager.generate_batch()
        assert batch.rewards == [3.0, 4.0, 5.0] * 2
        assert batch.advantages[:3] == pytest.approx([-1.0, 0.0, 1.0], abs=1e-5)
        fewer = await manager.generate_batch(reward_fn=lambda sample: 1.0)
    assert fewer.rewards == [1.0] * 6 and set(fewer.advantages) == {0.0}
    assert Counter(asked) == {"one": 6, "two": 6}
    assert batch.response_lengths == [3, 4, 5] * 2 and len(batch.loss_masks) == 6


@pytest.mark.parametrize(
    "changed", [lambda t: replace(t, prompt="Be brief."), lambda t: "Be brief."]
)
async def test_a_task_that_is_changed_is_played_as_changed(
    generate: Any, tokenizer: Any, changed: Any
) -> None:
    async def briefly(tasks: Any) -> list[Sample]:
        return await generate([changed(task) for task in tasks])

    async with AsyncRolloutManager(TASKS, RolloutConfig(2, briefly, 2)) as manager:
        batch = await manager.generate_batch()
    for sample in batch.samples:
        text = tokenizer.decode(sample.prompt_ids)
        assert sample.prompt == "Be brief." and "Be brief." in text and "question" not in text
    for group in batch.groups:
        one, other = group.trajectories
        assert one.segments[0].prompt_ids == other.segments[0].prompt_ids
        assert one.segments != other.segments


class FirstFails(ScriptedEngine):
    """Its first session fails; the others would write for a minute."""

    first = ""

    async def generate(self, *args: Any, session_id: str, **how: Any) -> Generation:
        self.first = self.first or session_id
        if session_id == self.first:
            raise RuntimeError("down")
        return await super().generate(*args, session_id=session_id, **how)


async def test_a_failure_leaves_no_other_episode_running(tokenizer: Any) -> None:
    engine = FirstFails(lambda *_: [1000] * 60, token_delay=1.0)
    before = asyncio.all_tasks()
    with pytest.raises(BackendFailure, match="RuntimeError: down"):
        await generate_rollout_batch(
            ["a", "b", "c"], environment_cls=Replayable, endpoint=engine, tokenizer=tokenizer
        )
    assert len(engine.calls) == 2
    assert asyncio.all_tasks() == before and not engine._running


@pytest.mark.parametrize(
    ("given", "told"),
    [(math.nan, "nan; expected a finite number"), (math.inf, "inf; expected"), ("1", "str '1'")],
)
async def test_a_reward_that_is_no_finite_number_is_told(given: Any, told: str) -> None:
    async def generate(tasks: Any) -> list[Sample]:
        return [by_hand(0.0, 3) for _ in tasks]

    config = RolloutConfig(1, generate, 2, reward_fn=lambda sample: given)
    async with AsyncRolloutManager(["one"], config) as manager:
        with pytest.raises(RewardFailure, match=f"reward_fn returned {told}"):
            await manager.generate_batch()


async def test_a_sample_whose_own_reward_is_not_finite_is_told() -> None:
    async def generate(tasks: Any) -> list[Sample]:
        return [by_hand(math.nan, 3) for _ in tasks]

    async with AsyncRolloutManager(["one"], RolloutConfig(1, generate, 2)) as manager:
        with pytest.raises(RewardFailure, match="generate_fn returned nan"):
            await manager.generate_batch()


async def test_a_function_that_gives_too_few_samples_is_told(generate: Any) -> None:
    async def one(tasks: Any) -> list[Sample]:
        return [by_hand(0.0, 3)]

    async with AsyncRolloutManager(["one"], RolloutConfig(1, one, 2)) as manager:
        with pytest.raises(ConfigError, match="was given 2 prompts and returned samples of 1"):
            await manager.generate_batch()


def test_batches_come_without_an_event_loop(generate: Any) -> None:
    batches = generate_rollout_batches(TASKS, RolloutConfig(2, generate, 2))
    found = list(islice(batches, 3))
    batches.close()
    assert [len(batch.samples) for batch in found] == [4, 4, 4]
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


@pytest.mark.parametrize("numbers", [(0, 1, 1.0), (1, 0, 1.0), (1, 1, 0.5)])
def test_impossible_numbers_are_refused(generate: Any, numbers: Any) -> None:
    size, samples, factor = numbers
    with pytest.raises(ConfigError, match=r"expected at least 1|over-sampling needs"):
        RolloutConfig(size, generate, samples, factor)
