"""`Places`: where every drawn task is that no batch has had."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from retrain.rollout.filling import Batch, Filling
from retrain.rollout.in_play import GroupInPlay, GroupsInPlay
from retrain.rollout.manager_state import ManagerState, Pending
from retrain.rollout.playing import Finished
from retrain.rollout.request import GroupRequest
from retrain.rollout.waiting import WaitingTasks
from retrain.types import Group


class Places:
    """Each task is in exactly one place, and what leaves them all is counted.

    What moves a task takes it from one place to the next with no wait between the two, so that the
    state may be taken at any time.

    Attributes:
        waiting: To be begun, or begun again.
        playing: In play.
        ready: Finished, and not asked for yet.
        filling: The batch that is being filled, and the counts.
    """

    def __init__(self, waiting: WaitingTasks, playing: GroupsInPlay, filling: Filling) -> None:
        """Begin with nothing finished."""
        self.waiting = waiting
        self.playing = playing
        self.filling = filling
        self.ready: list[Finished] = []

    def requests(self) -> list[GroupRequest]:
        """All tasks, in the order drawn."""
        playing = [group.visit.request for group in self.playing]
        finished = [_request(done.group) for done in (*self.filling.kept, *self.ready)]
        waiting = [item.request for item in self.waiting.pending]
        return sorted([*playing, *finished, *waiting], key=lambda request: request.index)

    def enqueue(self, requests: Iterable[GroupRequest]) -> None:
        """Take tasks in that are to be begun, with nothing recorded of them."""
        self.waiting.put(map(Pending, requests))

    def put_by(self) -> None:
        """Put groups that have finished well where they wait, in the order in which they began."""
        for group in self.playing.take_finished():
            self.filling.continued += group.visit.continued
            self.ready.append(Finished(group.visit.begun, group.task.result()))

    def harvest(self) -> None:
        """Put by what has finished; what failed, or was ended by someone else, is to begin again.

        Raises:
            RetrainError: What the first one that failed raised.
        """
        self.put_by()
        broken = self.playing.take_broken()
        self.enqueue(group.visit.request for group in broken)
        failures = [group.task.exception() for group in broken if not group.task.cancelled()]
        for failure in failures:
            if failure is not None:
                raise failure

    async def hand_over(self) -> None:
        """Give the batch what is finished; what it no longer needs goes on waiting.

        Raises:
            ConfigError: The filter is wrong, or drops too much.
            TooManyFailures: It does so because the episodes fail.
        """
        while self.ready and self.filling.missing:
            await self.filling.take(self.ready[0])
            del self.ready[0]
            self.filling.check_refills()

    def hand_out(self, iteration: int, after: Filling) -> Batch:
        """Give the filled batch.

        Args:
            iteration: Its number.
            after: The next one, still empty.
        """
        carried = len(self.playing) + len(self.ready)
        batch, self.filling = self.filling.batch(iteration, carried), after
        return batch

    def send_back(self, finished: Collection[Finished]) -> None:
        """Let what was played begin again."""
        self.ready = [done for done in self.ready if done not in finished]
        self.filling.give_back(finished)
        self.filling.restarted += len(finished)
        self.enqueue(_request(done.group) for done in finished)

    async def begin_again(self, groups: Collection[GroupInPlay]) -> int:
        """End groups in play, and let what they play begin again.

        Returns:
            How many there were; one that finishes all the same stays where it is.
        """
        ended = await self.playing.end(groups)
        self.enqueue(group.visit.request for group in ended)
        return len(ended)

    async def give_up_half_played(self) -> None:
        """End every group that has not finished, and count it.

        Raises:
            RetrainError: What one that had failed before raised; see `harvest`.
        """
        self.harvest()
        self.filling.unfinished += len(await self.playing.end([*self.playing]))

    def withdraw(self) -> list[GroupRequest]:
        """Give up all tasks, of which none is in play, for someone else to play."""
        given_up = self.requests()
        self.waiting.pending, self.ready = [], []
        self.filling.give_back([*self.filling.kept])
        return given_up

    def state(self, iteration: int, updates: int, playing: Iterable[Pending]) -> ManagerState:
        """Where the tasks are.

        Args:
            iteration: Of the batch that is being filled.
            updates: How often the weights have changed.
            playing: What is known of those in play.
        """
        return ManagerState(
            iteration,
            (*playing, *self.waiting.pending),
            (*self.filling.kept, *self.ready),
            updates,
            (self.filling.counted(),),
        )

    def restore(self, state: ManagerState, filling: Filling) -> None:
        """Put the tasks of a saved state in their places.

        Args:
            state: What `state` gave.
            filling: The batch that is to be filled, still empty.
        """
        self.waiting.pending = list(state.pending)
        self.ready = list(state.finished)
        self.filling = filling
        for tally in state.counted:
            filling.count(tally)


def _request(group: Group) -> GroupRequest:
    return GroupRequest(group.index, group.task, group.visit)
