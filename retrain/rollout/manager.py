"""`RolloutManager`: fills a batch from more groups than it needs, and loses none of the rest."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol

from retrain.errors import DataError
from retrain.rollout.filling import Batch, FailureCheck, Filling, OverSampling
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager_state import ManagerState, Pending, read_state, write_state
from retrain.rollout.partial import PartialGroup, choose
from retrain.rollout.playing import Finished, Play, Visit
from retrain.rollout.request import GroupRequest
from retrain.types import Group, Task, Trajectory


class Draws(Protocol):
    """Where the tasks come from; `DataBuffer` is one."""

    def draw(self, count: int) -> list[GroupRequest]:
        """The next tasks."""
        ...


@dataclass(frozen=True, slots=True)
class _InPlay:
    visit: Visit
    lane: int
    task: asyncio.Task[Group]


def no_check(episodes: Iterable[Trajectory]) -> None:
    """Bear any number of failed episodes."""


class RolloutManager:
    """Collects batches of groups; an asynchronous context manager.

    Every drawn task is in exactly one place: in play, finished and waiting, queued to be begun
    (again), in the batch that is being filled, dropped by the filter or replaced after a failure
    (both counted), or handed out in a batch.

    Attributes:
        how: How a batch is filled.
        iteration: How many batches were handed out.
        updates: How often the weights have changed; the age of a group is counted in these.
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
        self._play = play
        self._buffer = buffer
        self._gate = gate
        self.how = how
        self._check = check
        self._in_play: dict[int, _InPlay] = {}
        self._ready: list[Finished] = []
        self._queue: deque[GroupRequest] = deque()
        self._recorded: dict[int, Pending] = {}
        self._going: set[int] = set()
        self._renewed: asyncio.Future[None] | None = None
        self._filling = Filling(how, check)
        self.iteration = self.updates = 0

    async def __aenter__(self) -> RolloutManager:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def collect(self) -> Batch:
        """Collect the next batch; when it returns, nothing is in the engine.

        The weights are taken to change once before the next call.

        Raises:
            ConfigError: The filter is wrong, or dropped more than `max_refills` allows.
            RetrainError: A group failed whose policy is to raise, or too many episodes failed.
        """
        batch = await self.take_batch()
        self.updates += 1
        return batch

    async def take_batch(self) -> Batch:
        """Collect the next batch for a caller who says when weights change.

        Raises:
            RetrainError: As `collect`.
        """
        await self.fill()
        while any(map(self._too_old, self._filling.kept)):
            await self.fill()
        carried = len(self._in_play) + len(self._ready)
        batch = self._filling.batch(self.iteration, carried)
        self._filling = Filling(self.how, self._check)
        self.iteration += 1
        return batch

    async def fill(self) -> None:
        """Fill the next batch, and keep it; what fails, or is cancelled, goes on where it was.

        Raises:
            RetrainError: As `collect`.
        """
        filling = self._filling
        try:
            self._harvest()
            if self.how.mask_stale:
                self._send_back(self._ready)
            await self._restart_stale()
            await self._hand_over()
            if filling.missing:
                self._resume(filling.target)
            while filling.missing:
                self._top_up(filling.target)
                await self._wait_for_some()
                await self._restart_stale()
                await self._hand_over()
        finally:
            self._going.clear()
            filling.written_by(await self._gate.shut())
        filling.check_failures()
        if not self.how.partial:
            filling.restarted += await self._begin_again(list(self._in_play.values()))

    @asynccontextmanager
    async def weights_changing(self) -> AsyncIterator[None]:
        """Keep every group out of the engine while the context lasts; then the same ones go on.

        It counts as a change even if it fails, as nobody knows then which weights there are.
        """
        async with self._gate.standstill():
            try:
                yield
            finally:
                self.updates += 1
                if self._renewed is not None and not self._renewed.done():
                    self._renewed.set_result(None)

    async def close(self) -> None:
        """End every group in play; what was half played is begun again if the manager goes on."""
        self._put_by()
        await self._begin_again(list(self._in_play.values()))

    def enqueue(self, requests: Iterable[GroupRequest]) -> None:
        """Take tasks that are already drawn; they are begun before others are drawn."""
        self._queue = deque(sorted([*self._queue, *requests], key=lambda request: request.index))

    def requests(self) -> list[GroupRequest]:
        """The tasks that were drawn and that no batch has had, in the order drawn."""
        playing = [item.visit.request for item in self._in_play.values()]
        waiting = [_request(done.group) for done in (*self._filling.kept, *self._ready)]
        return sorted([*playing, *waiting, *self._queue], key=lambda request: request.index)

    def partial_groups(self) -> tuple[PartialGroup, ...]:
        """The half-played groups, in the order in which they were begun."""
        return tuple(
            PartialGroup(
                item.visit.request,
                item.visit.begun,
                self._gate.tokens(lane),
                self._gate.weight_versions(lane),
            )
            for lane, item in sorted(self._in_play.items())
        )

    def state_dict(self) -> dict[str, Any]:
        """What must go on after a restart, as JSON values; half-played groups begin afresh then.

        `saved_state` keeps how far they are too. A finished group that is not trained on yet is
        kept whole.
        """
        self._put_by()
        return write_state(self._state(Pending(i.visit.request) for i in self._in_play.values()))

    async def saved_state(self) -> dict[str, Any]:
        """What must go on after a restart, as JSON values, half-played episodes included.

        Which tasks it has is settled before its first wait; what is drawn later is not in it. So
        take the state of where they are drawn from right before, with no wait between the two.
        """
        self._put_by()
        state, playing = self._state(()), list(self._in_play.values())
        begun = [Pending(item.visit.request, item.visit.begun) for item in playing]
        async with self._gate.standstill():
            half_played = [await self._save(*pair) for pair in zip(playing, begun, strict=True)]
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
        self.iteration, self.updates = read.iteration, read.updates
        self._queue = deque(waiting.request for waiting in read.pending)
        self._recorded = {waiting.request.index: waiting for waiting in read.pending}
        self._ready = list(read.finished)
        self._filling = Filling(self.how, self._check)
        for tally in read.counted:
            self._filling.count(tally)

    def _state(self, playing: Iterable[Pending]) -> ManagerState:
        filling = self._filling
        queued = (self._recorded.get(r.index) or Pending(r) for r in self._queue)
        return ManagerState(
            self.iteration,
            (*playing, *queued),
            (*filling.kept, *self._ready),
            self.updates,
            (filling.counted(),),
        )

    async def _save(self, item: _InPlay, begun: Pending) -> Pending:
        """Add how far a group is, unless it has ended or given way to another task since."""
        save = item.visit.save
        if save is None or item.task.done() or item.visit.request is not begun.request:
            return begun
        return replace(begun, records=await save(self._gate.written))

    async def _restart_stale(self) -> None:
        """Begin groups again that have seen too many updates, whether they are finished or not."""
        stale = [item for item in self._in_play.values() if self._too_old(item.visit)]
        self._send_back([done for done in self._ready if self._too_old(done)])
        self._send_back([done for done in self._filling.kept if self._too_old(done)])
        self._filling.restarted += await self._begin_again(stale)

    def _send_back(self, finished: Collection[Finished]) -> None:
        """Queue what was played, to be begun again."""
        self._ready = [done for done in self._ready if done not in finished]
        self._filling.give_back(finished)
        self._filling.restarted += len(finished)
        self.enqueue(_request(done.group) for done in finished)

    def _too_old(self, group: Finished | Visit) -> bool:
        bound = self.how.max_staleness
        return bound is not None and self.updates - group.begun > bound

    async def _begin_again(self, items: Sequence[_InPlay]) -> int:
        """End groups in play and queue what they play."""
        for item in items:
            item.task.cancel()
        await asyncio.gather(*(item.task for item in items), return_exceptions=True)
        for item in items:
            self._forget(item)
        self.enqueue(item.visit.request for item in items)
        return len(items)

    def _resume(self, count: int) -> None:
        """Let half-played groups go on, as many as the buffer filter chooses."""
        lanes = {item.visit.request.index: lane for lane, item in self._in_play.items()}
        chosen = choose(self.how.buffer_filter, self.partial_groups(), count)
        self._going = {lanes[group.request.index] for group in chosen}
        self._gate.open(self._going)

    def _top_up(self, target: int) -> None:
        """Have `target` groups going, begun anew where too few half-played ones go on."""
        for request in self._take(target - len(self._going)):
            self._begin(request)

    def _take(self, count: int) -> list[GroupRequest]:
        queued = [self._queue.popleft() for _ in range(min(count, len(self._queue)))]
        missing = count - len(queued)
        return queued + (self._buffer.draw(missing) if missing > 0 else [])

    def _replace(self) -> GroupRequest:
        """Draw a task in place of one that failed, and count that one."""
        self._filling.replaced += 1
        return self._take(1)[0]

    def _begin(self, request: GroupRequest) -> None:
        self._require_new(request)
        lane, recorded = request.index, self._recorded.pop(request.index, Pending(request))
        begun = self.updates if recorded.begun is None else recorded.begun
        visit = Visit(request, begun, self._replace, recorded.records)
        if self._too_old(visit):
            visit.begun, visit.records = self.updates, {}

        async def play() -> Group:
            self._gate.enter(lane)
            return await self._play(visit)

        task = asyncio.create_task(play(), name=f"group {lane}")
        self._in_play[lane] = _InPlay(visit, lane, task)
        self._going.add(lane)
        self._gate.open([lane])

    def _require_new(self, request: GroupRequest) -> None:
        playing = [item.visit.request.index for item in self._in_play.values()]
        if request.index in (*self._in_play, *playing):
            raise DataError(
                f"group {request.index} (task {request.task.id!r}, visit {request.visit}) was "
                "drawn twice, and is in play; expected an index of its own for every draw. If the "
                "run was resumed, resume from another checkpoint"
            )

    async def _wait_for_some(self) -> None:
        """Wait until a group has ended, or the weights have changed."""
        self._renewed = asyncio.get_running_loop().create_future()
        awaited: list[asyncio.Future[Any]] = [item.task for item in self._in_play.values()]
        await asyncio.wait([*awaited, self._renewed], return_when=asyncio.FIRST_COMPLETED)
        self._harvest()

    def _harvest(self) -> None:
        """Put groups that have finished where they wait; raise what one of them raised."""
        self._put_by()
        ended = [item for item in self._in_play.values() if item.task.done()]
        for item in ended:
            self._forget(item)
        self.enqueue(item.visit.request for item in ended if item.task.cancelled())
        for item in ended:
            if not item.task.cancelled():
                item.task.result()

    def _put_by(self) -> None:
        """Put groups that have finished well where they wait, in the order in which they began."""
        for _, item in sorted(self._in_play.items()):
            task = item.task
            if task.done() and not task.cancelled() and task.exception() is None:
                self._forget(item)
                self._filling.continued += item.visit.continued
                self._ready.append(Finished(item.visit.begun, task.result()))

    async def _hand_over(self) -> None:
        """Give the batch what is finished; what it no longer needs goes on waiting."""
        while self._ready and self._filling.missing:
            await self._filling.take(self._ready[0])
            del self._ready[0]
            self._filling.check_refills()

    def _forget(self, item: _InPlay) -> None:
        del self._in_play[item.lane]
        self._going.discard(item.lane)
        self._gate.forget(item.lane)


def _request(group: Group) -> GroupRequest:
    return GroupRequest(group.index, group.task, group.visit)
