"""`Composition`: the four bridges and the executor that a configuration describes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retrain.compose.agents import check_agents
from retrain.compose.bounds import episode_limits, failure_policy
from retrain.compose.parts import make_renderer, sampling_params
from retrain.compose.rewarding import make_calculator
from retrain.model_files import known_positions

if TYPE_CHECKING:
    from bridges import DataFormatBridge, EnvironmentBridge, RewardBridge, RolloutBridge
    from retrain.config import RunConfig
    from retrain.engine.base import InferenceEngine
    from retrain.environment.registry import EnvironmentFactory
    from retrain.rendering import DeltaRenderer
    from retrain.rollout.executors.base import Executor
    from retrain.vision import VisionProcessor


@dataclass(frozen=True, slots=True)
class Composition:
    """Everything between a configuration and a training framework.

    Attributes:
        config: The configuration it was made from.
        renderer: Messages to tokens and back.
        environment: Plays one episode.
        rewards: Scores episodes.
        data_format: Turns episodes into samples.
        executor: Where the environments run.
    """

    config: RunConfig
    renderer: DeltaRenderer
    environment: EnvironmentBridge
    rewards: RewardBridge
    data_format: DataFormatBridge
    executor: Executor

    @property
    def image_processor(self) -> VisionProcessor | None:
        """The model's image processor; None where the renderer has none."""
        return getattr(self.renderer, "image_processor", None)

    def close(self) -> None:
        """End the workers of environments and rewards; from any thread, and more than once."""
        from retrain.reward.hub.pool import close_pools

        self.executor.close()
        self.rewards.calculator.close()
        close_pools()

    def rollouts(self, engine: InferenceEngine, *, evaluation: bool = False) -> RolloutBridge:
        """Make the bridge that collects groups, for training or for evaluation."""
        from bridges import RolloutBridge, RolloutSettings

        config = self.config
        n_samples = config.algorithm.hyperparameters.n_samples_per_prompt
        if evaluation and config.evaluation is not None:
            n_samples = config.evaluation.n_samples_per_prompt
        settings = RolloutSettings(
            params=sampling_params(config, evaluation=evaluation),
            n_samples=n_samples,
            run_seed=config.seed,
            split="eval" if evaluation else "train",
            concurrency=config.rollout.concurrency,
            episode_timeout=config.rollout.episode_timeout,
            policy=failure_policy(config),
            evaluation=evaluation,
        )
        return RolloutBridge(self.environment, self.rewards, engine, settings)


def compose(config: RunConfig, *, model_dir: str | Path | None = None) -> Composition:
    """Make the four bridges that a configuration describes.

    Args:
        config: One stage's configuration.
        model_dir: Where to load tokenizer and template from; None is `model.name_or_path`.

    Raises:
        ConfigError: The environment, a reward or the template cannot be used; the key is named.
    """
    renderer = make_renderer(config, model_dir)
    return compose_with(config, renderer, positions=known_positions(config, model_dir))


def compose_with(
    config: RunConfig,
    renderer: DeltaRenderer,
    *,
    make_environment: EnvironmentFactory | None = None,
    positions: int | None = None,
) -> Composition:
    """Make the four bridges around a renderer that is there already.

    Args:
        config: One stage's configuration; of `model:` nothing is read.
        renderer: Messages to tokens and back.
        make_environment: Makes the environments in place of the configured ones, in this process.
        positions: How many positions the model knows; bounds the context.

    Raises:
        ConfigError: The environment, a reward or a filter cannot be used; the key is named.
    """
    from bridges import DataFormatBridge, EnvironmentBridge, RewardBridge
    from retrain.environment import make_environment_factory
    from retrain.rollout.executors.base import LocalExecutor
    from retrain.rollout.executors.making import make_executor
    from retrain.rollout.filter_building import over_sampling

    over_sampling(config.rollout, config.algorithm.hyperparameters.rollout_batch_size)
    section = config.environment
    factory = make_environment or make_environment_factory(
        section.type, section.env_specific_config, section.agents
    )
    check_agents(config, factory)
    calculator = make_calculator(
        config, renderer, renderer.text, environment_rewards=factory.rewards
    )
    if make_environment is None:
        executor = make_executor(config, factory, worlds=calculator.reads_environments)
    else:
        executor = LocalExecutor(make_environment)
    advantage = "grpo" if config.algorithm.name == "sft" else config.algorithm.name
    return Composition(
        config=config,
        renderer=renderer,
        environment=EnvironmentBridge(renderer, executor.make, episode_limits(config, positions)),
        rewards=RewardBridge(calculator, advantage, by_agent=config.algorithm.baseline == "agent"),
        data_format=DataFormatBridge(renderer),
        executor=executor,
    )
