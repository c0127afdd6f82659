"""`RolloutFeed`: answers TRL's `rollout_func` with our groups, and remembers the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from backends.trl.batching import BatchFiller
from bridges import DataFormatBridge
from bridges.data_format import Fresh
from retrain.errors import BackendFailure
from retrain.launch import Launch
from retrain.sample import Sample
from retrain.types import Group, Trajectory

OnGroups = Callable[[int, Sequence[Group], Sequence[Sample], float, Mapping[str, float]], None]
"""Takes the trainer's step, the groups, their rows, the seconds that they took and the metrics of
how the batch was filled."""


class RolloutFeed:
    """Fills a batch and hands it to TRL row by row.

    The order of tasks is ours; the prompts that TRL passes are placeholders, of which only the
    number counts. One row is one episode. Groups never straddle processes.

    Attributes:
        rows: [B] what this process's last batch gave to TRL.
        current: [B, T] 1 on their tokens that the weights of that step wrote; T is a row's own
            response length.
    """

    def __init__(
        self,
        batches: BatchFiller,
        data_format: DataFormatBridge,
        launch: Launch,
        *,
        weights: Callable[[], AbstractContextManager[None]],
        on_groups: OnGroups,
    ) -> None:
        """Make a feed.

        Args:
            batches: Fills the batches.
            data_format: Turns episodes into samples.
            launch: Which process this is.
            weights: Entered while a batch is filled, for the trainer's present weights.
            on_groups: Told what all processes collected, before it is trained on; the first
                process only.
        """
        self._batches = batches
        self._data_format = data_format
        self._launch = launch
        self._weights = weights
        self._on_groups = on_groups
        self.rows: list[Sample] = []
        self.current: list[list[int]] = []
        self.seconds = 0.0

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Fill the batch of one iteration.

        Args:
            prompts: Placeholders, one per row of this process, each repeated G times by TRL.
            trainer: The calling trainer.

        Returns:
            Columns of equal length: TRL's three, `env_mask`, and the raw reward.
        """
        began = time.perf_counter()
        self._batches.require_count(len(prompts))
        step = trainer.state.global_step
        with self._weights():
            filled = self._batches.fill()
        fresh = filled.fresh if self._batches.how.mask_stale else None
        self.rows = self._rows(filled.own, fresh)
        episodes = (t for group in filled.own for t in group.trajectories)
        self.current = [written_by(str(step), episode) for episode in episodes]
        if self._launch.first:
            rows = self._rows(filled.groups, fresh)
            extra = self._batches.metrics(filled)
            self._on_groups(step, filled.groups, rows, filled.seconds, extra)
        self.seconds += time.perf_counter() - began
        return as_columns(self.rows)

    def _rows(self, groups: Sequence[Group], fresh: Fresh) -> list[Sample]:
        return [sample for group in groups for sample in self._group_rows(group, fresh)]

    def _group_rows(self, group: Group, fresh: Fresh) -> list[Sample]:
        slots = self._data_format.group_samples(group, fresh=fresh)
        for slot in slots:
            if len(slot) != 1:
                raise BackendFailure(
                    f"task {group.task.id!r}: an episode has {len(slot)} segments; TRL takes one "
                    "row per episode (rendering.history: keep never opens a second segment)"
                )
        return [slot[0] for slot in slots]


def written_by(version: str, episode: Trajectory) -> list[int]:
    """[T] 1 on the tokens of a response that a weight version wrote, 0 on all others."""
    mask: list[int] = []
    for turn in episode.turns:
        for count, wrote in turn.spans:
            mask += [int(wrote == version)] * count
        mask += [0] * len(turn.env_ids)
    return mask or [0]


def as_columns(rows: Sequence[Sample]) -> dict[str, list[Any]]:
    """The dictionary that `rollout_func` must return for `rows`.

    Every list has one entry per row. A mask that is too short would be padded with 1 by TRL, so
    the samples' own invariants (`Sample.validate`) are what keeps observations untrained.
    """
    return {
        "prompt_ids": [row.prompt_ids for row in rows],
        "completion_ids": [row.response_ids for row in rows],
        "logprobs": [row.rollout_log_probs for row in rows],
        "env_mask": [row.loss_mask for row in rows],
        "retrain_reward": [None if row.remove_sample else row.reward for row in rows],
    }


def raw_reward(
    completions: Sequence[Any], retrain_reward: Sequence[float | None], **columns: Any
) -> list[float | None]:
    """The one reward function that TRL sees: our raw reward, for its logs."""
    return list(retrain_reward)
