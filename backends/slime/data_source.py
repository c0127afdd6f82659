"""`DataSource`: slime's data source over our `DataBuffer`, with a snapshot for every rollout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from backends.slime.checkpoints import data_path, read_data, run_shape, write_data
from backends.slime.context import context_of
from backends.slime.drawing import REQUEST, group_samples, place_of
from backends.slime.filters import take_oldest
from backends.slime.framework import framework
from backends.slime.handed_out import OVER, OVER_BEFORE, HandedOut, can_follow
from backends.slime.live_episodes import BEGUN_AGAIN
from backends.slime.samples import flat
from retrain.compose import make_buffer
from retrain.errors import ConfigError, DataError
from retrain.report.start import read_start
from retrain.rollout.request import GroupRequest
from retrain.rollout.state_file import require_same_shape
from retrain.types import Task

_KEPT = 64
"""Most snapshots that wait to be saved; slime saves a rollout before the next but one ends."""

_READ_BY_SLIME = ("raw_reward", "round_number")
"""Metadata that slime takes for its own (slime/ray/rollout.py): it would replace the rewards that
slime logs, or be missed in a task without it."""


class DataSource:
    """Gives slime groups of samples in our order of tasks, and remembers where it stood.

    `train_async.py` begins rollout N + 1 before it saves rollout N. So the state is taken at the
    end of every rollout (`snapshot`), and `save` writes the one that it is asked for.

    Attributes:
        rollout_state: The state of the `RolloutManager` that a resumed run goes on with.
        handed_out: What slime's own manager has.
    """

    def __init__(self, args: Any) -> None:
        """Make a source over the configured tasks.

        Args:
            args: Slime's arguments.

        Raises:
            ConfigError: There is no configuration, or it cannot be used.
            DataError: The prompt source is wrong.
        """
        self._args = args
        self._context = context_of(args)
        _refuse_slimes_own(self._context.tasks)
        self._context.data_source = self
        self._begin()

    def __len__(self) -> int:
        """How many tasks one epoch has."""
        return len(self._context.tasks)

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        """Give groups of fresh samples; groups that were given back come first.

        Args:
            num_samples: How many groups.
        """
        groups = self._take_back(num_samples)
        requests = self._buffer.draw(max(num_samples - len(groups), 0))
        groups += [group_samples(request, self._group_size()) for request in requests]
        if can_follow(self._context.config, self._args):
            tasks = self._context.tasks
            self.handed_out.give(place_of(group[0], tasks).request for group in groups)
        return groups

    def add_samples(self, samples: list[list[Any]]) -> None:
        """Take groups back that were not finished.

        Args:
            samples: Groups of exactly `n_samples_per_prompt` samples.

        Raises:
            ValueError: A group has another size.
        """
        for group in samples:
            if len(group) != self._group_size():
                raise ValueError(
                    f"a group of {len(group)} samples was given back; groups have "
                    f"{self._group_size()}"
                )
        self._returned += samples
        for sample in flat(samples):
            self.handed_out.settle([sample.group_index])
            if sample.status.value in OVER:
                sample.metadata[OVER_BEFORE] = True

    def take_thrown_away(self, trained: Iterable[Any]) -> dict[str, float]:
        """Take back what slime's own manager threw away in a rollout; those groups begin afresh.

        With `partial: false` they are given up, as everywhere.

        Args:
            trained: The samples of the rollout's batch.

        Returns:
            How many groups are given up, or begin afresh and wait, as metrics; empty for none.
        """
        lost = self.handed_out.thrown_away({sample.group_index for sample in flat(trained)})
        if not self._context.config.rollout.partial:
            return {"rollout/unfinished": len(lost)} if lost else {}
        self._begin_again(lost)
        if not self._returned:
            return {}
        return {"rollout/restarted": len(lost), "rollout/carried": len(self._returned)}

    def position(self) -> dict[str, Any]:
        """Where the draws stand now, as JSON values."""
        returned = [
            {"index": group[0].group_index, **group[0].metadata[REQUEST]}
            for group in self._returned
        ]
        rewards = self._context.composition.rewards.state_dict()
        return {"buffer": self._buffer.state_dict(), "returned": returned, "rewards": rewards}

    def snapshot(
        self,
        rollout_id: int,
        rollout: Mapping[str, Any] | None = None,
        position: Mapping[str, Any] | None = None,
    ) -> None:
        """Remember the state at the end of a rollout.

        Args:
            rollout_id: Which one.
            rollout: The state of our `RolloutManager`, where it fills the rollouts.
            position: What `position` gave when that state was taken; None is now.
        """
        self._snapshots[rollout_id] = {**(position or self.position()), "rollout": rollout}
        for old in sorted(self._snapshots)[:-_KEPT]:
            del self._snapshots[old]

    def remembers(self, rollout_id: int) -> bool:
        """Whether the state at the end of a rollout is known."""
        return rollout_id in self._snapshots

    def save(self, rollout_id: int) -> None:
        """Write the state at the end of a rollout to `state/data-ROLLOUT.json`.

        Raises:
            DataError: That rollout has not ended in this process.
            ConfigError: There is no run folder.
        """
        state = self._snapshots.get(rollout_id)
        if state is None:
            raise DataError(
                f"data state of rollout {rollout_id}: that rollout has not ended here; slime must "
                "run with --rollout-function-path backends.slime.plugin.generate_rollout, or with "
                "--custom-rollout-log-function-path backends.slime.plugin.log_rollout"
            )
        write_data(self._path(rollout_id), state, self._context.config)

    def load(self, rollout_id: int | None = None) -> None:
        """Go on after a rollout; -1 and None begin.

        Raises:
            DataError: There is no state of that rollout, or it is damaged or of other tasks.
            ConfigError: There is no run folder, or the state is of a run of another shape.
        """
        self._begin()
        if rollout_id is None or rollout_id < 0:
            self._begin_where_another_run_stood()
            return
        path = self._path(rollout_id)
        if not path.exists():
            raise DataError(
                f"{path}: no such file, so the run cannot go on after rollout {rollout_id}; resume "
                "in the run's own folder, or begin with --start-rollout-id 0"
            )
        state = read_data(path)
        require_same_shape(path, state.shape, run_shape(self._context.config))
        self._restore(state.content)

    def _begin(self) -> None:
        context = self._context
        self._buffer = make_buffer(context.config, tuple(context.tasks.values()))
        self._returned: list[list[Any]] = []
        self._snapshots: dict[int, dict[str, Any]] = {}
        self.handed_out = HandedOut()
        self.rollout_state: Mapping[str, Any] | None = None
        context.composition.rewards.forget()

    def _begin_where_another_run_stood(self) -> None:
        run_dir = self._context.run_dir
        start = None if run_dir is None else read_start(run_dir)
        if start is not None:
            self._buffer.load_state_dict(start.buffer)

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Unfinished groups are played anew, since their worlds are gone."""
        self._buffer.load_state_dict(state["buffer"])
        self.rollout_state = state.get("rollout")
        if "rewards" in state:
            self._context.composition.rewards.load_state_dict(state["rewards"])
        self._begin_again(
            GroupRequest(row["index"], self._context.tasks[row["task"]], row["visit"])
            for row in state["returned"]
        )

    def _begin_again(self, requests: Iterable[GroupRequest]) -> None:
        groups = [group_samples(request, self._group_size()) for request in requests]
        for sample in flat(groups):
            sample.metadata[BEGUN_AGAIN] = True
        self._returned += groups

    def _take_back(self, count: int) -> list[list[Any]]:
        if not self._returned or not count:
            return []
        path = getattr(self._args, "buffer_filter_path", None)
        if path is None:
            return take_oldest(self._returned, count)
        taken: Sequence[list[Any]] = framework().load(path)(self._args, None, self._returned, count)
        return list(taken)

    def _group_size(self) -> int:
        config = self._context.config
        if config.algorithm.name == "sft":
            return 1
        own: int = config.algorithm.hyperparameters.n_samples_per_prompt
        return int(getattr(self._args, "n_samples_per_prompt", None) or own)

    def _path(self, rollout_id: int) -> Path:
        run_dir = self._context.run_dir
        if run_dir is None:
            raise ConfigError(
                "the data state has no run folder to stand in: retrain_run_dir is not set; pass "
                "--custom-config-path RUN/slime.yaml"
            )
        return data_path(run_dir, rollout_id)


def _refuse_slimes_own(tasks: Mapping[str, Task]) -> None:
    for task in tasks.values():
        for key in _READ_BY_SLIME:
            if key in task.metadata:
                raise DataError(
                    f"task {task.id!r}: slime reads the metadata {key!r} as its own; rename that "
                    "column of the prompt source"
                )
