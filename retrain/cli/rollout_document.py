"""Played episodes for programs: JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrain.report.batch_metrics import batch_metrics

if TYPE_CHECKING:
    from retrain.compose import Composition
    from retrain.sample import Sample
    from retrain.types import Group, Trajectory


def rollout_document(
    composition: Composition, groups: Sequence[Group], seconds: float
) -> dict[str, Any]:
    """What `retrain rollout --json` prints: the episodes and their metrics."""
    return {
        "episodes": [
            _episode(composition, trajectory, slot)
            for group in groups
            for trajectory, slot in zip(
                group.trajectories, composition.data_format.group_samples(group), strict=True
            )
        ],
        "metrics": batch_metrics(groups, seconds=seconds),
    }


def _episode(
    composition: Composition, trajectory: Trajectory, slot: Sequence[Sample]
) -> dict[str, Any]:
    error = trajectory.error
    return {
        "task_id": trajectory.task.id,
        "visit": trajectory.seed.visit,
        "sample_index": trajectory.seed.sample_index,
        "status": str(trajectory.status),
        "stop_reason": str(trajectory.stop_reason),
        "reward": trajectory.reward,
        "rewards": dict(trajectory.rewards),
        "advantage": slot[0].advantage,
        "error": None if error is None else f"{error.boundary}: {error.reason}",
        "segments": [_segment(composition, sample) for sample in slot],
    }


def _segment(composition: Composition, sample: Sample) -> dict[str, Any]:
    return {
        "prompt_ids": list(sample.prompt_ids),
        "response_ids": list(sample.response_ids),
        "loss_mask": list(sample.loss_mask),
        "logprobs": list(sample.rollout_log_probs),
        "text": composition.renderer.decode(sample.tokens),
    }
