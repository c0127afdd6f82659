"""What is looked at before a run: its inputs, and one episode without a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from retrain.compose.composition import Composition, compose
from retrain.compose.parts import make_tasks

if TYPE_CHECKING:
    from retrain.config import RunConfig
    from retrain.sample import Sample
    from retrain.types import Task, Trajectory


@dataclass(frozen=True, slots=True)
class Preview:
    """One episode that no model took part in, for the dry run.

    Attributes:
        samples: Its samples.
        recorded: Whether the turns are those of a demonstration; else they are scripted.
        trajectory: The episode; None for a demonstration.
    """

    samples: tuple[Sample, ...]
    recorded: bool
    trajectory: Trajectory | None = None


async def preview(composition: Composition, task: Task) -> Preview:
    """Play one episode without a model: a demonstration's turns, or scripted ones.

    Args:
        composition: The bridges; the environment, the template and the rewards are real.
        task: What the episode is about.

    Raises:
        DataError: An sft task that is no demonstration.
    """
    from bridges import EnvironmentBridge
    from bridges.demonstrations import demonstration_samples
    from bridges.preview import preview_episode

    renderer, limits = composition.renderer, composition.environment.limits
    here = composition.executor.here
    if composition.config.algorithm.name == "sft":
        tools = await EnvironmentBridge(renderer, here, limits).tools()
        samples = await demonstration_samples([task], renderer, limits, tools)
        return Preview(tuple(samples), recorded=True)
    episode = await preview_episode(task, renderer, here, limits)
    (scored,) = await composition.rewards.score([episode])
    return Preview(tuple(composition.data_format.to_samples(scored)), False, scored)


def check_inputs(config: RunConfig) -> None:
    """Make the bridges and read all tasks, so that a mistake shows before a run folder is made.

    Raises:
        ConfigError: The environment, a reward or the template cannot be used.
        DataError: A prompt source is wrong.
    """
    from bridges.demonstrations import conversation

    compose(config)
    tasks = make_tasks(config)
    if config.algorithm.name == "sft":
        for task in tasks:
            conversation(task)
    if config.evaluation is not None:
        make_tasks(config, config.evaluation.prompt_source)
