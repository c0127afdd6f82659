"""Whether several agents can be played as a configuration has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from retrain.errors import ConfigError

if TYPE_CHECKING:
    from retrain.config import RunConfig
    from retrain.environment.registry import EnvironmentFactory


def check_agents(config: RunConfig, factory: EnvironmentFactory) -> None:
    """Refuse what cannot play the agents of an environment together.

    Args:
        config: One stage's configuration.
        factory: Makes the environments.

    Raises:
        ConfigError: Every key that stands in the way, with the reason.
    """
    if found := list(_problems(config, factory)):
        raise ConfigError("; ".join(found))


def _problems(config: RunConfig, factory: EnvironmentFactory) -> Iterator[str]:
    if factory.casting is None:
        return
    if config.rollout.executor.type != "local":
        yield (
            f"rollout.executor: {config.rollout.executor.type}: the agents of an environment are "
            "played in one process; set local"
        )
    if factory.together is None or config.algorithm.name == "sft":
        return
    seats = len(factory.together.seats)
    if config.rollout.owner == "slime":
        yield (
            "rollout.owner: slime: slime's rollout manager plays one episode at a time, and the "
            f"{seats} agents of a match are played together; set retrain"
        )
    counts = {"algorithm.hyperparameters": config.algorithm.hyperparameters.n_samples_per_prompt}
    if config.evaluation is not None:
        counts["evaluation"] = config.evaluation.n_samples_per_prompt
    for section, count in counts.items():
        if count % seats:
            yield (
                f"{section}.n_samples_per_prompt: {count} is no multiple of the {seats} agents "
                "that the model plays; each match gives a group one episode of each of them"
            )
    samples = config.algorithm.hyperparameters.n_samples_per_prompt
    matches, trained = samples // seats, seats - len(factory.together.masked)
    if matches == 1 and trained == 1 and config.algorithm.baseline == "group":
        yield (
            f"algorithm.hyperparameters.n_samples_per_prompt: {samples} is one match with one "
            "agent that is trained, which has no other episode to be compared with; use "
            f"{2 * seats} or more"
        )
    if samples == seats and config.algorithm.baseline == "agent":
        yield (
            f"algorithm.hyperparameters.n_samples_per_prompt: {samples} is one match of {seats} "
            "agents, so that no episode has another of the same agent to be compared with; use "
            f"{2 * seats} or more, or algorithm.baseline: group"
        )
