"""Episodes without a configuration: what the plain calls of `retrain.rollout` are made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bridges.data_format import KEY, DataFormatBridge, rebuild
from bridges.environment import EnvironmentBridge
from bridges.gathering import gather
from bridges.limits import EpisodeLimits
from bridges.reward import RewardBridge
from bridges.rollout import RolloutBridge
from bridges.rollout_settings import RolloutSettings
from retrain.engine.base import InferenceEngine, SamplingParams
from retrain.environment.registry import EnvironmentFactory
from retrain.environment.several_agents import has_agents
from retrain.errors import ConfigError
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.reward.values import finite_number
from retrain.rollout.request import GroupRequest
from retrain.sample import Sample
from retrain.seeds import EpisodeSeed
from retrain.types import Action, FinishReason, Segment, StopReason, Trajectory, Turn


@dataclass(frozen=True, slots=True)
class AgentPlayer:
    """Plays members of groups and gives their samples, scored."""

    environment: EnvironmentBridge
    rewards: RewardBridge
    data_format: DataFormatBridge
    engine: InferenceEngine
    params: SamplingParams
    seed: int

    async def __call__(self, members: Sequence[tuple[GroupRequest, int]]) -> list[Sample]:
        """Play (group, place in it) for each member, all at the same time."""
        settings = RolloutSettings(self.params, 1, self.seed, concurrency=max(len(members), 1))
        bridge = RolloutBridge(self.environment, self.rewards, self.engine, settings)
        played = await gather([bridge.episode(group, n) for group, n in members])
        scored = await self.rewards.score(played)
        return [
            sample
            for position, episode in enumerate(scored)
            for sample in self.data_format.to_samples(replace(episode, index=position))
        ]


def make_player(
    environment_cls: Callable[..., Any],
    engine: InferenceEngine,
    tokenizer: Any,
    *,
    max_turns: int | None,
    max_response_len: int,
    temperature: float,
    seed: int,
) -> AgentPlayer:
    """Make a player.

    Args:
        environment_cls: Makes the environment.
        engine: Writes the model's turns.
        tokenizer: The model's tokenizer, with its chat template.
        max_turns: Most model turns of an episode.
        max_response_len: Most tokens of an episode after its first prompt.
        temperature: Of the sampling.
        seed: The run's seed.

    Raises:
        ConfigError: The template cannot be exact, or it is no environment.
    """
    if has_agents(environment_cls):
        raise ConfigError(
            f"{environment_cls.__name__}: has several agents, whose episodes are played together, "
            "and this plays an episode for each prompt; train it by a configuration"
        )
    renderer = _renderer(tokenizer)
    limits = EpisodeLimits(max_response_len=max_response_len, max_turns=max_turns)
    component = RewardComponent("environment", ComponentKind.ENVIRONMENT)
    return AgentPlayer(
        EnvironmentBridge(renderer, EnvironmentFactory(environment_cls, {}), limits),
        RewardBridge(RewardCalculator([component])),
        DataFormatBridge(renderer),
        engine,
        SamplingParams(max_response_len, temperature),
        seed,
    )


@lru_cache(maxsize=8)
def _renderer(tokenizer: Any) -> DeltaRenderer:
    """The renderer of a tokenizer: its self-check takes a while, and is made once."""
    return load_renderer(tokenizer)


def episodes_of(
    samples: Sequence[Sample], request: GroupRequest, count: int
) -> tuple[Trajectory, ...]:
    """The episodes of a group's samples; see `retrain.compose.episodes_of`."""
    siblings: dict[object, list[Sample]] = defaultdict(list)
    for position, sample in enumerate(samples):
        if sample.rollout_id is None:
            sample.rollout_id = -1 - position
        siblings[sample.rollout_id].append(sample)
    if len(siblings) != count:
        raise ConfigError(
            f"generate_fn: was given {count} prompts and returned samples of {len(siblings)} "
            "episodes; return one for each, or several with the same rollout_id"
        )
    return tuple(
        _episode(rows, request, position) for position, rows in enumerate(siblings.values())
    )


def _episode(rows: Sequence[Sample], request: GroupRequest, position: int) -> Trajectory:
    first = rows[0]
    given = isinstance(first.reward, int | float)
    reward = finite_number(first.reward, "generate_fn") if given else None
    removed = all(row.remove_sample for row in rows)
    if all(KEY in row.metadata for row in rows):
        return replace(rebuild(rows), task=request.task, reward=reward, masked=removed)
    segments = tuple(_segment(row) for row in rows)
    seed = EpisodeSeed(0, "train", request.task.id, request.visit, position)
    return Trajectory(
        request.task,
        seed,
        segments,
        first.status,
        StopReason.TERMINATED,
        reward=reward,
        masked=removed,
    )


def _segment(row: Sample) -> Segment:
    """A sample that somebody else made: its response is one turn."""
    turn = Turn(
        tuple(row.response_ids),
        tuple(row.rollout_log_probs) or (0.0,) * row.response_length,
        FinishReason.STOP,
        Action(row.response),
    )
    return Segment(tuple(row.prompt_ids), (turn,))
