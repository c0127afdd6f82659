"""Several agents in slime's places: groups of whole matches, and advantages by agent."""

from __future__ import annotations

from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.samples import flat
from retrain.compose import compose, load_engine, make_buffer, make_tasks
from retrain.errors import ConfigError
from retrain.rollout.filling import OverSampling
from retrain.runtime import EventLoopThread


def config_of(slime_config: Any, stones: int | None, baseline: str = "agent") -> Any:
    environment = {"type": "nim_match:Nim", "env_specific_config": {"stones": stones}}
    algorithm = slime_config(n_samples_per_prompt=4, max_response_len=600).algorithm
    rows = {**algorithm.model_dump(), "baseline": baseline}
    return slime_config(sections={"environment": environment, "algorithm": rows})


def other_rows(config: Any) -> list[tuple[Any, ...]]:
    """The rows of the same groups as other backends get them: from the manager's batch."""
    composition = compose(config)
    rollouts = composition.rollouts(load_engine(config.rollout.engine, composition))
    buffer = make_buffer(config, make_tasks(config))

    async def collect() -> Any:
        async with rollouts.managed(buffer, OverSampling(2)) as manager:
            return await manager.collect()

    with EventLoopThread() as loop:
        batch = loop.run(collect())
    groups = composition.rewards.settle(batch.groups)
    slots = [slot for group in groups for slot in composition.data_format.group_samples(group)]
    return [(tuple(row.tokens), row.reward, row.advantage) for slot in slots for row in slot]


@pytest.mark.parametrize(("stones", "baseline"), [(None, "agent"), (None, "group"), (1, "agent")])
def test_slime_trains_the_same_rows(
    slime_config: Any, slime_args: Any, stones: int | None, baseline: str
) -> None:
    config = config_of(slime_config, stones, baseline)
    args = slime_args(config)
    output = plugin.generate_rollout(args, 0, plugin.DataSource(args))
    assert [len(group) for group in output.samples] == [4, 4]
    samples = list(flat(output.samples))
    raw, advantages = plugin.reward_post_process(args, samples)
    expected = other_rows(config)
    found = [
        (tuple(s.tokens), None if s.remove_sample else reward, advantage)
        for s, reward, advantage in zip(samples, raw, advantages, strict=True)
    ]
    assert found == expected
    assert any(advantages) is (stones is None)
    agents = [s.metadata["retrain"]["trajectory"]["agent"] for s in samples]
    assert agents == ["first", "second"] * 4
    assert context_of(args).composition.rewards.by_agent is (baseline == "agent")


async def test_a_single_sample_of_a_match_is_not_played(slime_config: Any, slime_args: Any) -> None:
    args = slime_args(config_of(slime_config, None))
    (first, *_), *_ = plugin.DataSource(args).get_samples(1)
    with pytest.raises(ConfigError, match="agents of a match are played together"):
        await plugin.generate(args, first, {"max_new_tokens": 100})
