"""`RolloutFeed`: answers TRL's `rollout_func` with our groups, and remembers the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from backends.trl.collecting import Collector
from bridges import DataFormatBridge
from retrain.errors import BackendFailure
from retrain.launch import Launch
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.request import GroupRequest
from retrain.sample import Sample
from retrain.types import Group

OnGroups = Callable[[int, Sequence[Group], Sequence[Sample], float], None]
"""Takes the trainer's step, the groups, their rows and the seconds that they took."""


class RolloutFeed:
    """Draws tasks, collects their groups and hands them to TRL row by row.

    The order of tasks is ours (`DataBuffer`); the prompts that TRL passes are placeholders, of
    which only the number counts. One row is one episode. Every process draws the same groups and
    plays a slice of them, so groups never straddle processes.
    """

    def __init__(
        self,
        buffer: DataBuffer,
        collector: Collector,
        data_format: DataFormatBridge,
        launch: Launch,
        *,
        weights: Callable[[str], AbstractContextManager[None]],
        on_groups: OnGroups,
    ) -> None:
        """Make a feed.

        Args:
            buffer: Draws the tasks.
            collector: Plays and scores them.
            data_format: Turns episodes into samples.
            launch: Which process this is.
            weights: Entered with the weight version while a collection lasts.
            on_groups: Told what all processes collected, before it is trained on; the first
                process only.
        """
        self._buffer = buffer
        self._collector = collector
        self._data_format = data_format
        self._launch = launch
        self._weights = weights
        self._on_groups = on_groups
        self.rows: list[Sample] = []

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Collect the groups of one generation batch.

        Args:
            prompts: Placeholders, one per row of this process, each repeated G times by TRL.
            trainer: The calling trainer.

        Returns:
            Columns of equal length: TRL's three, `env_mask`, and the raw reward.
        """
        n_samples = self._collector.rollouts.settings.n_samples
        count, rest = divmod(len(prompts), n_samples)
        if rest:
            raise BackendFailure(
                f"TRL asked for {len(prompts)} rows, which is not a multiple of "
                f"n_samples_per_prompt {n_samples}"
            )
        step = trainer.state.global_step
        requests = self._buffer.draw(count * self._launch.processes)
        with self._weights(str(step)):
            collected = self._collector.collect(requests, refill=self._refill)
        self.rows = self._rows(collected.own)
        if self._launch.first:
            others = collected.groups[len(collected.own) :]
            rows = [*self.rows, *self._rows(others)]
            self._on_groups(step, collected.groups, rows, collected.seconds)
        return as_columns(self.rows)

    def _refill(self) -> GroupRequest:
        return self._buffer.draw(1)[0]

    def _rows(self, groups: Sequence[Group]) -> list[Sample]:
        return [sample for group in groups for sample in self._group_rows(group)]

    def _group_rows(self, group: Group) -> list[Sample]:
        slots = self._data_format.group_samples(group)
        for slot in slots:
            if len(slot) != 1:
                raise BackendFailure(
                    f"task {group.task.id!r}: an episode has {len(slot)} segments; TRL takes one "
                    "row per episode (rendering.history: keep never opens a second segment)"
                )
        return [slot[0] for slot in slots]


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
