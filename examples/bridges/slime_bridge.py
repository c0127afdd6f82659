"""From an environment to the samples that slime trains on, step by step.

    python examples/bridges/slime_bridge.py                         # scripted turns, no network
    python examples/bridges/slime_bridge.py --engine transformers   # turns that a model samples
    PYTHONPATH=SLIME python examples/bridges/slime_bridge.py        # slime's own Sample

It runs with and without slime: where slime cannot be imported, a stand-in with the same fields
takes the place of its `Sample`. In a run, slime itself calls these functions by their paths
(`backends.slime.plugin.generate_rollout` and its neighbours).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trl_bridge import (
    LIMITS,
    PARAMS,
    SEEDS,
    TASK,
    print_rewards,
    print_turns,
    run_example,
    title,
)

from backends.slime import plugin
from backends.slime.framework import framework
from backends.slime.samples import fill
from bridges import DataFormatBridge, EnvironmentBridge, RewardBridge
from retrain.engine.base import InferenceEngine
from retrain.environment import make_environment_factory
from retrain.rendering import DeltaRenderer
from retrain.reward import ComponentKind, RewardCalculator, RewardComponent
from retrain.types import Group, Trajectory


async def show(renderer: DeltaRenderer, engine: InferenceEngine) -> None:
    """Take two groups of different size through the bridges, into slime's hands."""
    environment = make_environment_factory("calculator", {"max_turns": 4})
    play = EnvironmentBridge(renderer, environment, LIMITS)
    rewards = RewardBridge(
        RewardCalculator([RewardComponent("environment", ComponentKind.ENVIRONMENT)])
    )

    title("1. EnvironmentBridge.run: an episode, turn by turn")
    episodes = [await play.run(TASK, engine=engine, params=PARAMS, seed=seed) for seed in SEEDS]
    print_turns(episodes[0], renderer)

    title("2. RewardBridge.group: raw rewards, and advantages within the group")
    groups = [
        await rewards.group(0, TASK, 0, numbered(episodes, 0, 0)),
        await rewards.group(1, TASK, 1, numbered(episodes[:2], 1, len(episodes))),
    ]
    print_rewards(groups[0])

    own = "slime's own Sample" if framework().real else "a stand-in for slime's Sample"
    title(f"3. What slime is given: groups of {own}")
    samples = [sample for group in groups for sample in slime_samples(group, renderer)]
    print_sample(samples[0])

    title("4. plugin.reward_post_process: what slime trains on, group by group")
    print_advantages(samples, groups)


def numbered(episodes: Sequence[Trajectory], group: int, first: int) -> list[Trajectory]:
    """The episodes of one group, as a collection of a run would number them."""
    return [replace(e, group_index=group, index=first + n) for n, e in enumerate(episodes)]


def slime_samples(group: Group, renderer: DeltaRenderer) -> list[Any]:
    """Fill one sample of slime's for each episode, as `generate_rollout` does."""
    slots = DataFormatBridge(renderer).group_samples(group)
    make = framework().sample
    return [
        fill(make(group_index=slot[0].group_index, index=slot[0].index), slot, (), None)
        for slot in slots
    ]


def print_sample(sample: Any) -> None:
    """Print the fields that slime reads."""
    for name in ("group_index", "index", "rollout_id", "status", "reward", "response_length"):
        print(f"{name:>18}  {getattr(sample, name)}")
    for name in ("tokens", "loss_mask", "rollout_log_probs"):
        values = getattr(sample, name)
        shown = ", ".join(f"{value:.4g}" for value in values[:12])
        print(f"{name:>18}  {len(values)} values: [{shown}, …]")
    print(f"{'weight_versions':>18}  {sample.weight_versions}")
    print(f"{'trained tokens':>18}  {sum(sample.loss_mask)} of {sample.response_length}")


def print_advantages(samples: Sequence[Any], groups: Sequence[Group]) -> None:
    """Print rewards and advantages; groups of different size are told apart by their index."""
    raw, advantages = plugin.reward_post_process(None, samples)
    for sample, reward, advantage in zip(samples, raw, advantages, strict=True):
        print(f"group {sample.group_index}  reward {reward:.1f}  advantage {advantage:+.4f}")
    bridges = [value for group in groups for value in group.advantages]
    print(f"the advantages of step 2: {'yes' if advantages == bridges else 'no'}")


if __name__ == "__main__":
    run_example(__doc__, show)
