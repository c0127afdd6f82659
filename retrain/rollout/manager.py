"""`RolloutManager`: fills a batch from more groups than it needs, and loses none of the rest."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from retrain.rollout.filling import Batch, FailureCheck, Filling, OverSampling, Tally
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager_state import (
    Finished,
    ManagerState,
    Pending,
    read_state,
    write_state,
)
from retrain.rollout.partial import PartialGroup, choose
from retrain.rollout.playing import Play, Visit
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
    (again), dropped by the filter or replaced after a failure (both counted), or handed out in a
    batch.
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
        self._how = how
        self._check = check
        self._in_play: dict[int, _InPlay] = {}
        self._ready: list[Finished] = []
        self._queue: deque[GroupRequest] = deque()
        self._recorded: dict[int, Pending] = {}
        self._going: set[int] = set()
        self._replaced = self._continued = 0
        self.iteration = 0

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

        Raises:
            ConfigError: The filter is wrong, or dropped more than `max_refills` allows.
            RetrainError: A group failed whose policy is to raise, or too many episodes failed.
        """
        filling = Filling(self._how, self._check)
        versions: tuple[str, ...] = ()
        self._replaced = self._continued = 0
        try:
            self._harvest()
            restarted = await self._restart_stale()
            await self._hand_over(filling)
            self._resume(filling.target)
            while filling.missing:
                self._top_up(filling.target)
                await self._wait_for_some()
                await self._hand_over(filling)
        finally:
            self._going.clear()
            versions = await self._gate.shut()
        filling.check_failures()
        if not self._how.partial:
            restarted += await self._begin_again(list(self._in_play.values()))
        self.iteration += 1
        return Batch(
            iteration=self.iteration - 1,
            groups=tuple(filling.in_order()),
            tally=Tally(
                dropped=dict(+filling.dropped),
                fallback=filling.fallback,
                restarted=restarted,
                replaced=self._replaced,
                continued=self._continued,
                carried=len(self._in_play) + len(self._ready),
            ),
            versions=versions,
        )

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
        waiting = [_request(done.group) for done in self._ready]
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
        return self._state(Pending(i.visit.request) for i in self._in_play.values())

    async def saved_state(self) -> dict[str, Any]:
        """What must go on after a restart, as JSON values, half-played episodes included.

        Raises:
            EnvironmentFailure: An environment could not give its snapshot.
        """
        self._put_by()
        return self._state([await self._pending(item) for item in list(self._in_play.values())])

    def load_state_dict(self, state: Mapping[str, Any], tasks: Mapping[str, Task]) -> None:
        """Go on where a saved manager stood.

        Args:
            state: What `state_dict` gave.
            tasks: The tasks of the prompt source by id.

        Raises:
            DataError: The state is of another version, damaged, or a task is no longer there.
        """
        read = read_state(state, tasks)
        self.iteration = read.iteration
        self._queue = deque(waiting.request for waiting in read.pending)
        self._recorded = {waiting.request.index: waiting for waiting in read.pending}
        self._ready = list(read.finished)

    def _state(self, playing: Iterable[Pending]) -> dict[str, Any]:
        queued = (self._recorded.get(r.index) or Pending(r) for r in self._queue)
        return write_state(ManagerState(self.iteration, (*playing, *queued), tuple(self._ready)))

    async def _pending(self, item: _InPlay) -> Pending:
        visit = item.visit
        records = {} if visit.save is None else await visit.save(self._gate.written)
        return Pending(visit.request, visit.begun, records)

    async def _restart_stale(self) -> int:
        """Begin groups again that waited too long, and those that waited too long when finished."""
        bound = self._most_stale
        finished_bound = -1 if self._how.mask_stale else bound
        stale = [i for i in self._in_play.values() if self.iteration - i.visit.begun > bound]
        old = [done for done in self._ready if self.iteration - done.begun > finished_bound]
        self._ready = [done for done in self._ready if done not in old]
        self.enqueue(_request(done.group) for done in old)
        return len(old) + await self._begin_again(stale)

    @property
    def _most_stale(self) -> float:
        bound = self._how.max_staleness
        return math.inf if bound is None else bound

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
        chosen = choose(self._how.buffer_filter, self.partial_groups(), count)
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

    def _begin(self, request: GroupRequest) -> None:
        lane, recorded = request.index, self._recorded.pop(request.index, Pending(request))
        begun = self.iteration if recorded.begun is None else recorded.begun
        records = recorded.records
        if self.iteration - begun > self._most_stale:
            begun, records = self.iteration, {}
        visit = Visit(request, begun, lambda: self._take(1)[0], records)

        async def play() -> Group:
            self._gate.enter(lane)
            return await self._play(visit)

        task = asyncio.create_task(play(), name=f"group {lane}")
        self._in_play[lane] = _InPlay(visit, lane, task)
        self._going.add(lane)
        self._gate.open([lane])

    async def _wait_for_some(self) -> None:
        running = [item.task for item in self._in_play.values()]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        self._harvest()

    def _harvest(self) -> None:
        """Put groups that have finished where they wait; raise what one of them raised."""
        self._put_by()
        failed = [item for item in self._in_play.values() if item.task.done()]
        for item in failed:
            self._forget(item)
        for item in failed:
            item.task.result()

    def _put_by(self) -> None:
        """Put groups that have finished well where they wait, in the order in which they began."""
        for _, item in sorted(self._in_play.items()):
            task = item.task
            if task.done() and not task.cancelled() and task.exception() is None:
                self._forget(item)
                self._replaced += item.visit.replaced
                self._continued += item.visit.continued
                self._ready.append(Finished(item.visit.begun, task.result()))

    async def _hand_over(self, filling: Filling) -> None:
        """Give the batch what is finished; what it no longer needs goes on waiting."""
        while self._ready and filling.missing:
            await filling.take(self._ready.pop(0).group)

    def _forget(self, item: _InPlay) -> None:
        del self._in_play[item.lane]
        self._going.discard(item.lane)
        self._gate.forget(item.lane)


def _request(group: Group) -> GroupRequest:
    return GroupRequest(group.index, group.task, group.visit)
