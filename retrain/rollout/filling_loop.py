"""`FillingLoop`: plays groups until a batch is full."""

from __future__ import annotations

import asyncio

from retrain.rollout.filling import OverSampling
from retrain.rollout.manager_state import Pending
from retrain.rollout.places import Places
from retrain.rollout.playing import Finished, Visit
from retrain.rollout.request import GroupRequest


class FillingLoop:
    """Begins groups, and moves what ends to where it belongs.

    Attributes:
        updates: How often the weights have changed.
    """

    def __init__(self, places: Places, how: OverSampling) -> None:
        """Make a loop.

        Args:
            places: Where the tasks are.
            how: How a batch is filled.
        """
        self.updates = 0
        self._places = places
        self._how = how
        self._renewed: asyncio.Future[None] | None = None

    async def fill(self) -> None:
        """Fill the batch, and suspend what is not needed for it.

        Raises:
            RetrainError: A group failed, too many episodes did, or the filter is wrong.
        """
        places, filling = self._places, self._places.filling
        try:
            await self._tidy()
            if filling.missing:
                places.playing.go_on(self._how.buffer_filter, filling.target)
            while filling.missing:
                self._top_up(filling.target)
                await self._wait_for_some()
                await self._restart_stale()
                await places.hand_over()
        finally:
            filling.written_by(await places.playing.suspend())
        filling.check_failures()
        if not self._how.partial:
            await places.give_up_half_played()

    def weights_changed(self) -> None:
        """Count a change, and look for groups that have grown too old."""
        self.updates += 1
        if self._renewed is not None and not self._renewed.done():
            self._renewed.set_result(None)

    def too_old(self, group: Finished | Visit) -> bool:
        """Whether a group has seen more updates than `max_staleness` since it was begun."""
        bound = self._how.max_staleness
        return bound is not None and self.updates - group.begun > bound

    async def _tidy(self) -> None:
        """See to what has ended, or grown too old, since the last batch."""
        places = self._places
        places.harvest()
        if self._how.mask_stale:
            places.send_back(places.ready)
        await self._restart_stale()
        await places.hand_over()

    async def _restart_stale(self) -> None:
        """Begin groups again that have seen too many updates, whether they are finished or not."""
        places = self._places
        stale = [group for group in places.playing if self.too_old(group.visit)]
        for finished in (places.ready, places.filling.kept):
            places.send_back([done for done in finished if self.too_old(done)])
        places.filling.restarted += await places.begin_again(stale)

    def _top_up(self, target: int) -> None:
        """Have `target` groups going, begun anew where too few half-played ones go on."""
        places = self._places
        for waiting in places.waiting.take(max(target - places.playing.going, 0)):
            places.playing.begin(self._visit(waiting))

    def _visit(self, waiting: Pending) -> Visit:
        """A visit that goes on from its records, or begins afresh."""
        if waiting.records and waiting.begun is not None:
            visit = Visit(waiting.request, waiting.begun, self._replace, waiting.records)
            if not self.too_old(visit):
                return visit
            self._places.filling.restarted += 1
        return Visit(waiting.request, self.updates, self._replace)

    def _replace(self) -> GroupRequest:
        """Draw a task in place of one that failed, and count that one."""
        another = self._places.waiting.take_another()
        self._places.filling.replaced += 1
        return another

    async def _wait_for_some(self) -> None:
        """Wait until a group has ended, or the weights have changed."""
        self._renewed = asyncio.get_running_loop().create_future()
        await self._places.playing.wait(self._renewed)
        self._places.harvest()
