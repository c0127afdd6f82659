"""Filling the batches of a run: each process has its own share of the tasks, all end together."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from backends.trl.collecting import in_step
from bridges import RewardBridge
from retrain.errors import BackendFailure
from retrain.launch import Launch
from retrain.report.filling_metrics import filling_metrics
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.buffer_state import merge_states as merge_buffers
from retrain.rollout.filling import Batch, OverSampling, Tally
from retrain.rollout.manager import RolloutManager
from retrain.rollout.manager_state import merge_states, share_state
from retrain.runtime import EventLoopThread
from retrain.types import Group, Task

_OwnState = tuple[dict[str, Any], dict[str, Any]]
"""A process's buffer and its manager, as JSON values."""


@dataclass(frozen=True, slots=True)
class Filled:
    """The batch of one iteration.

    Attributes:
        own: The groups that this process played, in the order in which their tasks were drawn.
        groups: Those of all processes, in that order.
        tally: What became of the groups that are not in the batch, on all processes.
        fresh: The weight versions that wrote in this iteration.
        seconds: How long it took, until the last process was done.
    """

    own: Sequence[Group]
    groups: Sequence[Group]
    tally: Tally
    fresh: frozenset[str]
    seconds: float


class BatchFiller:
    """Fills one batch after the other with this process's `RolloutManager`, on the loop.

    Attributes:
        rewards: Normalises the rewards of whole batches (`RewardBridge.settle`); None where
            nobody does.
    """

    rewards: RewardBridge | None = None

    def __init__(
        self,
        manager: RolloutManager,
        how: OverSampling,
        n_samples: int,
        loop: EventLoopThread,
        launch: Launch,
    ) -> None:
        """Make a filler.

        Args:
            manager: Fills this process's share of a batch.
            how: How it does.
            n_samples: G, episodes of a group.
            loop: Runs the episodes.
            launch: Which process this is.
        """
        self.how = how
        self.n_samples = n_samples
        self._manager = manager
        self._loop = loop
        self._launch = launch

    def fill(self) -> Filled:
        """Fill the next batch.

        Raises:
            RetrainError: What failed on this process, or which rank failed: nobody waits for ever.
        """
        began = time.perf_counter()
        batch = in_step(lambda: self._loop.run(self._collect()), self._launch)
        batches: list[Batch] = self._launch.gather([batch])
        groups = sorted((g for b in batches for g in b.groups), key=lambda group: group.index)
        groups = groups if self.rewards is None else self.rewards.settle(groups)
        played = {group.index for group in batch.groups}
        return Filled(
            own=[group for group in groups if group.index in played],
            groups=groups,
            tally=reduce(add, (other.tally for other in batches)),
            fresh=frozenset(version for other in batches for version in other.versions),
            seconds=time.perf_counter() - began,
        )

    def metrics(self, filled: Filled) -> dict[str, float]:
        """What an iteration says about how its batch was filled; see `filling_metrics`."""
        return filling_metrics(self.how, filled.tally, filled.groups, filled.fresh)

    def close(self) -> None:
        """End what is half played."""
        self._loop.run(self._manager.close())

    def state(self, buffer: DataBuffer) -> dict[str, Any]:
        """What a resume needs of all processes: every one of them calls it.

        Args:
            buffer: Where the manager draws from.

        Raises:
            RetrainError: What failed on this process, or which rank failed: nobody waits for ever.
        """
        own = in_step(lambda: self._loop.run(self._own_state(buffer)), self._launch)
        states: list[_OwnState] = self._launch.gather([own])
        buffers, managers = zip(*states, strict=True)
        rewards = {} if self.rewards is None else {"rewards": self.rewards.state_dict()}
        return {"data": merge_buffers(buffers), "rollout": merge_states(managers), **rewards}

    def _collect(self) -> Coroutine[Any, Any, Batch]:
        """Collect this process's share of the next batch."""
        return self._manager.collect()

    async def _own_state(self, buffer: DataBuffer) -> _OwnState:
        """Where this process stands; a group that is drawn meanwhile is in neither part.

        Both are taken on the loop, with no wait between them: environments run on, and one that
        fails may draw another task at any time.
        """
        position = buffer.state_dict()
        return position, await self._manager.saved_state()

    def load(self, state: Mapping[str, Any], buffer: DataBuffer, tasks: Mapping[str, Task]) -> None:
        """Take this process's share of a saved state, whatever the number of processes was.

        Args:
            state: What `state` gave.
            buffer: Where the manager draws from.
            tasks: The tasks by id.

        Raises:
            DataError: The state does not fit.
        """
        buffer.load_state_dict(state["data"])
        if self.rewards is not None and "rewards" in state:
            self.rewards.load_state_dict(state["rewards"])
        if "rollout" in state:
            share = share_state(state["rollout"], self._launch.processes, self._launch.rank)
            self._manager.load_state_dict(share, tasks)
            self._count_last_update(state)

    def _count_last_update(self, state: Mapping[str, Any]) -> None:
        """Count the update before the checkpoint, where a run that collected ahead had not yet."""
        if "weights_step" in state and state["weights_step"] != state["step"]:
            self._manager.count_update()

    def require_count(self, rows: int) -> None:
        """Check how many rows TRL wants of this process.

        Raises:
            BackendFailure: Another number than the plan's.
        """
        planned = self.how.batch_size * self.n_samples
        if rows != planned:
            raise BackendFailure(
                f"TRL asked for {rows} rows, and this process fills batches of "
                f"{self.how.batch_size} groups of n_samples_per_prompt {self.n_samples}: {planned}"
            )
