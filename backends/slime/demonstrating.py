"""`sft_rollout`: recorded conversations as slime's samples, with our tokens and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.slime.context import Context
from backends.slime.drawing import Drawing
from backends.slime.framework import framework
from backends.slime.nesting import evenly_nested
from backends.slime.samples import fill, flat
from bridges.demonstrations import demonstration_samples
from retrain.sample import Sample


async def demonstrate(context: Context, args: Any, rollout_id: int, source: Any) -> Any:
    """Draw demonstrations and give them as samples to imitate.

    Args:
        context: The bridges.
        args: Slime's arguments.
        rollout_id: Which rollout.
        source: Slime's data source; groups of one sample.

    Returns:
        `RolloutFnTrainOutput`: one group per demonstration, of one sample, or of a list where the
        template rewrites what was said. They have no logprobs, for nobody sampled them.

    Raises:
        DataError: Naming the row that cannot be used.
    """
    own: int = context.config.algorithm.hyperparameters.rollout_batch_size
    count = int(getattr(args, "rollout_batch_size", None) or own)
    drawing = Drawing(source, context.tasks, first_index=rollout_id * count)
    composition = context.composition
    tools = await composition.environment.tools()
    groups = []
    for request in drawing.draw(count):
        samples = await demonstration_samples(
            [request.task], composition.renderer, composition.environment.limits, tools
        )
        (target,) = drawing.members(request.index)
        groups.append([_imitated(target, samples, args)])
    snapshot = getattr(source, "snapshot", None)
    if snapshot is not None:
        snapshot(rollout_id)
    return framework().train_output(samples=evenly_nested(groups), metrics={})


def _imitated(target: Any, samples: Sequence[Sample], args: Any) -> Any:
    filled = fill(target, samples, (), args)
    for sample in flat([filled]):
        sample.rollout_log_probs = None
    return filled
