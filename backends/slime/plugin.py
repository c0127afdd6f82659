"""The functions that slime loads by path, such as `backends.slime.plugin.generate_rollout`.

Nothing of slime is edited: these names are given to slime's own options.
Every function also runs where slime is not installed, over stand-ins of slime's types
(`backends.slime.framework`), and with `args=None` over a built-in offline run
(`backends.slime.offline`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backends.slime.collecting import collect
from backends.slime.context import context_of
from backends.slime.data_source import DataSource
from backends.slime.demonstrating import demonstrate
from backends.slime.evaluating import evaluate
from backends.slime.filters import dropped_by_slime, filter_group, take_oldest
from backends.slime.generating import generate_episode
from backends.slime.rewards import advantages, score
from backends.slime.rollout_checks import check_rollout
from backends.slime.trained_votes import settle
from retrain.report.filling_metrics import only_filling

__all__ = [
    "DataSource",
    "buffer_filter",
    "dynamic_filter",
    "eval_rollout",
    "generate",
    "generate_rollout",
    "group_reward",
    "log_eval",
    "log_rollout",
    "reward",
    "reward_post_process",
    "sft_rollout",
]


async def generate(
    args: Any, sample: Any, sampling_params: Mapping[str, Any], evaluation: bool = False
) -> Any:
    """`--custom-generate-function-path`: play and score the episode of one sample.

    See `generating.generate_episode`.
    """
    context = context_of(args)
    return await generate_episode(context, args, sample, sampling_params, evaluation)


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """`--rollout-function-path`: collect the groups of one rollout; blocks.

    See `collecting.collect`; with `evaluation` it is `eval_rollout`.
    """
    if evaluation:
        return eval_rollout(args, rollout_id, data_source, evaluation=True)
    context = context_of(args)
    return context.loop.run(collect(context, args, rollout_id, data_source))


def eval_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """`--eval-function-path`: play the held-out tasks; blocks. See `evaluating.evaluate`."""
    context = context_of(args)
    return context.loop.run(evaluate(context, args, rollout_id))


def sft_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """`--rollout-function-path` of a run that imitates; blocks.

    See `demonstrating.demonstrate`.
    """
    context = context_of(args)
    return context.loop.run(demonstrate(context, args, rollout_id, data_source))


async def reward(args: Any, sample: Any, **kwargs: Any) -> Any:
    """`--custom-rm-path`: score one sample, or a list of them. See `rewards.score`."""
    return await score(context_of(args), args, sample)


async def group_reward(args: Any, samples: Sequence[Any], **kwargs: Any) -> list[Any]:
    """`--custom-rm-path` with `--group-rm`: score a group. See `rewards.score`."""
    rewards: list[Any] = await score(context_of(args), args, list(samples))
    return rewards


def reward_post_process(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """`--custom-reward-post-process-path`: raw rewards and advantages. See `rewards.advantages`."""
    return advantages(context_of(args), args, samples)


def dynamic_filter(args: Any, samples: Sequence[Any], **kwargs: Any) -> Any:
    """`--dynamic-sampling-filter-path`: keep groups that teach. See `filters.filter_group`."""
    return filter_group(args, samples)


def buffer_filter(
    args: Any, rollout_id: int | None, buffer: list[list[Any]], num_samples: int
) -> list[list[Any]]:
    """`--buffer-filter-path`: take the groups that have waited longest."""
    return take_oldest(buffer, num_samples)


def log_rollout(
    rollout_id: int,
    args: Any,
    samples: Sequence[Any],
    rollout_extra_metrics: Mapping[str, Any] | None,
    rollout_time: float,
) -> bool:
    """`--custom-rollout-log-function-path`: write the rollout into the run folder.

    It also ends a rollout that slime's own collector filled: groups that it threw away are taken
    back or given up, the data source's state is taken, and weights that did not move, or too many
    failures, stop the run. After the last rollout, episodes that are still suspended end.

    Returns:
        False: slime goes on to log its own figures, under its own names.

    Raises:
        BackendFailure: The weights did not move, or too much of the rollout failed.
    """
    context = context_of(args)
    owner = context.config.rollout.owner
    source = context.data_source
    carried: Mapping[str, float] = {}
    if owner == "slime":
        settle(context, args, samples)
    if source is not None and (owner == "slime" or not source.remembers(rollout_id)):
        carried = source.take_thrown_away(samples)
        source.snapshot(rollout_id)
    if context.config.algorithm.name == "sft":
        return False
    if context.log is not None:
        _, values = advantages(context, args, samples)
        metrics = rollout_extra_metrics or {}
        asked = context.composition.rewards.calculator.measured()
        extra = {**dropped_by_slime(metrics), **only_filling(metrics), **carried, **asked}
        context.log.train(rollout_id, samples, values, rollout_time, extra)
    if owner == "slime":
        check_rollout(context, args, rollout_id, samples)
        if rollout_id + 1 == getattr(args, "num_rollout", None):
            context.loop.run(context.live.end_all())
    return False


def log_eval(
    rollout_id: int,
    args: Any,
    data: Mapping[str, Mapping[str, Any]],
    extra_metrics: Mapping[str, Any] | None,
) -> bool:
    """`--custom-eval-rollout-log-function-path`: write the evaluation into the run folder.

    Returns:
        False: slime goes on to log its own figures, under its own names.
    """
    context = context_of(args)
    if context.log is not None:
        samples = [sample for column in data.values() for sample in column.get("samples", ())]
        context.log.evaluation(rollout_id, samples)
    return False
