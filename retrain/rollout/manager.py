"""`RolloutManager`: fills a batch from more groups than it needs, and loses none of the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from retrain.closing import AsyncClosing
from retrain.rollout.filling import Batch, FailureCheck, Filling, OverSampling
from retrain.rollout.filling_loop import FillingLoop
from retrain.rollout.gate import GatedEngine
from retrain.rollout.in_play import GroupsInPlay
from retrain.rollout.manager_state import Pending, read_state, write_state
from retrain.rollout.partial import PartialGroup
from retrain.rollout.places import Places
from retrain.rollout.playing import Play
from retrain.rollout.request import GroupRequest
from retrain.rollout.waiting import Draws, WaitingTasks
from retrain.types import Task, Trajectory


def no_check(episodes: Iterable[Trajectory]) -> None:
    """Bear any number of failed episodes."""


class RolloutManager(AsyncClosing):
    """Collects batches of groups; an asynchronous context manager.

    Every drawn task is in exactly one place: waiting to be begun, in play, finished and waiting, in
    the batch that is being filled, handed out in a batch, or counted: as dropped by the filter, as
    given up half played, or as replaced after a failure.

    Attributes:
        how: How a batch is filled.
        iteration: How many batches were handed out.
    """

    def __init__(
        self,
        play: Play,
        buffer: Draws,
        gate: GatedEngine,
        how: OverSampling,
        *,
        check: FailureCheck = no_check,
    ) -> None:
        """Make a manager.

        Args:
            play: Plays one group, through `gate`.
            buffer: Draws the tasks.
            gate: Stands before the engine.
            how: How a batch is filled.
            check: Raises where too many episodes of a batch failed.
        """
        self.how = how
        self._gate = gate
        self._check = check
        self._places = Places(WaitingTasks(buffer), GroupsInPlay(play, gate), self._empty())
        self._loop = FillingLoop(self._places, how)
        self.iteration = 0

    @property
    def updates(self) -> int:
        """How often the weights have changed; the age of a group is counted in these."""
        return self._loop.updates

    async def collect(self) -> Batch:
        """Collect the next batch; when it returns, nothing is in the engine.

        The weights are taken to change once before the next call.

        Raises:
            ConfigError: The filter is wrong, or dropped more than `max_refills` allows.
            RetrainError: A group failed whose policy is to raise, or too many episodes failed.
        """
        batch = await self.take_batch()
        self.count_update()
        return batch

    async def take_batch(self) -> Batch:
        """Collect the next batch for a caller who says when weights change.

        Raises:
            RetrainError: As `collect`.
        """
        await self.fill()
        while any(map(self._loop.too_old, self._places.filling.kept)):
            await self.fill()
        batch = self._places.hand_out(self.iteration, self._empty())
        self.iteration += 1
        return batch

    async def fill(self) -> None:
        """Fill the next batch, and keep it; what is cancelled goes on where it was.

        Raises:
            RetrainError: As `collect`; a group that failed begins again with the next call.
        """
        await self._loop.fill()

    @asynccontextmanager
    async def weights_changing(self) -> AsyncIterator[None]:
        """Keep every group out of the engine while the context lasts; then the same ones go on.

        It counts as a change even if it fails, as nobody knows then which weights there are.
        """
        async with self._gate.standstill():
            try:
                yield
            finally:
                self.count_update()

    def count_update(self) -> None:
        """Say that the weights have changed, where nothing was in the engine meanwhile."""
        self._loop.weights_changed()

    async def close(self) -> None:
        """End every group in play; what was half played is begun again if the manager goes on."""
        self._places.put_by()
        await self._places.begin_again([*self._places.playing])
        self._places.put_by()  # what finished all the same

    def withdraw(self) -> list[GroupRequest]:
        """Give up every task that no batch has had, for someone else to play; close before."""
        return self._places.withdraw()

    def enqueue(self, requests: Iterable[GroupRequest]) -> None:
        """Take tasks that are already drawn; they are begun before others are drawn."""
        self._places.enqueue(requests)

    def requests(self) -> list[GroupRequest]:
        """The tasks that were drawn and that no batch has had, in the order drawn."""
        return self._places.requests()

    def partial_groups(self) -> tuple[PartialGroup, ...]:
        """The half-played groups, in the order in which they were begun."""
        return self._places.playing.partial()

    def state_dict(self) -> dict[str, Any]:
        """What must go on after a restart, as JSON values; half-played groups begin afresh then.

        `saved_state` keeps how far they are too. A finished group that is not trained on yet is
        kept whole.
        """
        self._places.put_by()
        playing = [Pending(group.visit.request) for group in self._places.playing]
        return write_state(self._places.state(self.iteration, self.updates, playing))

    async def saved_state(self) -> dict[str, Any]:
        """What must go on after a restart, as JSON values, half-played episodes included.

        Which tasks it has is settled before its first wait; what is drawn later is not in it. So
        take the state of where they are drawn from right before, with no wait between the two.
        """
        places, gate = self._places, self._gate
        places.put_by()
        state = places.state(self.iteration, self.updates, ())
        playing = [(group, group.pending()) for group in places.playing]
        async with gate.standstill():
            half_played = [await group.recorded(own, gate.written) for group, own in playing]
        return write_state(replace(state, pending=(*half_played, *state.pending)))

    def load_state_dict(self, state: Mapping[str, Any], tasks: Mapping[str, Task]) -> None:
        """Go on where a saved manager stood.

        Args:
            state: What `state_dict` gave.
            tasks: The tasks of the prompt source by id.

        Raises:
            DataError: The state is of another version, damaged, or a task is no longer there.
        """
        read = read_state(state, tasks)
        self.iteration, self._loop.updates = read.iteration, read.updates
        self._places.restore(read, self._empty())

    def _empty(self) -> Filling:
        return Filling(self.how, self._check)
