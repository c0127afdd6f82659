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
    """One episode that no model took part in, for the dry run; of several agents one match.

    Attributes:
        samples: Its samples, seat after seat.
        recorded: Whether the turns are those of a demonstration; else they are scripted.
        trajectory: The episode, of a match the first one that failed; None for a demonstration.
    """

    samples: tuple[Sample, ...]
    recorded: bool
    trajectory: Trajectory | None = None


async def preview(composition: Composition, task: Task) -> Preview:
    """Play one episode, or match, without a model: a demonstration's turns, or scripted ones.

    Args:
        composition: The bridges; the environment, the template and the rewards are real.
        task: What the episode is about.

    Raises:
        DataError: An sft task that is no demonstration.
    """
    from bridges import EnvironmentBridge
    from bridges.demonstrations import demonstration_samples
    from bridges.preview import preview_episodes

    renderer, limits = composition.renderer, composition.environment.limits
    here = composition.executor.here
    if composition.config.algorithm.name == "sft":
        tools = await EnvironmentBridge(renderer, here, limits).tools()
        samples = await demonstration_samples([task], renderer, limits, tools)
        return Preview(tuple(samples), recorded=True)
    episodes = await preview_episodes(task, renderer, here, limits)
    scored = await composition.rewards.score(episodes)
    samples = [sample for one in scored for sample in composition.data_format.to_samples(one)]
    shown = next((one for one in scored if one.error is not None), scored[0])
    return Preview(tuple(samples), False, shown)


def check_inputs(config: RunConfig) -> None:
    """Make the bridges and read all tasks, so that a mistake shows before a run folder is made.

    Raises:
        ConfigError: The environment, a reward or the template cannot be used.
        DataError: A prompt source is wrong.
        MissingDependency: A logger's package is not installed.
    """
    from bridges.demonstrations import conversation
    from retrain.loggers.publishing import require_loggers

    require_loggers(config)
    compose(config)
    tasks = make_tasks(config)
    if config.algorithm.name == "sft":
        for task in tasks:
            conversation(task)
    if config.evaluation is not None:
        make_tasks(config, config.evaluation.prompt_source)
