"""`RolloutManager`: fills a batch from more groups than it needs, and loses none of the rest."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from retrain.errors import DataError
from retrain.rollout.filling import Batch, Filling, OverSampling
from retrain.rollout.gate import GROUP, GatedEngine
from retrain.rollout.partial import PartialGroup, choose
from retrain.rollout.request import GroupRequest
from retrain.types import Group

Play = Callable[[GroupRequest], Awaitable[Group]]
"""Plays, scores and returns one group; its engine is the manager's gate."""

_VERSION = 1


class Draws(Protocol):
    """Where the tasks come from; `DataBuffer` is one."""

    def draw(self, count: int) -> list[GroupRequest]:
        """The next tasks."""
        ...


@dataclass(slots=True)
class _InPlay:
    request: GroupRequest
    begun: int
    task: asyncio.Task[Group]


class RolloutManager:
    """Collects batches of groups; an asynchronous context manager.

    Every drawn task is in exactly one place: in play, finished and waiting, queued to be begun
    again, dropped by the filter (counted), or handed out in a batch.
    """

    def __init__(self, play: Play, buffer: Draws, gate: GatedEngine, how: OverSampling) -> None:
        """Make a manager.

        Args:
            play: Plays one group, through `gate`.
            buffer: Draws the tasks.
            gate: Stands before the engine.
            how: How a batch is filled.
        """
        self._play = play
        self._buffer = buffer
        self._gate = gate
        self._how = how
        self._in_play: dict[int, _InPlay] = {}
        self._ready: list[tuple[int, Group]] = []
        self._queue: deque[GroupRequest] = deque()
        self._going: set[int] = set()
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
            RetrainError: A group failed whose policy is to raise.
        """
        filling = Filling(self._how)
        restarted = await self._restart_stale()
        try:
            while self._ready and filling.missing:
                await filling.take(self._ready.pop(0)[1])
            self._resume(filling.target)
            while filling.missing:
                self._top_up(filling.target)
                await self._take_finished(filling)
        finally:
            self._going.clear()
            await self._gate.shut()
        self.iteration += 1
        return Batch(
            iteration=self.iteration - 1,
            groups=tuple(sorted(filling.kept, key=lambda group: group.index)),
            dropped=dict(+filling.dropped),
            fallback=filling.fallback,
            restarted=restarted,
            carried=len(self._in_play) + len(self._ready),
        )

    async def close(self) -> None:
        """End every group in play; what was half played is begun again if the manager goes on."""
        running = sorted(self._in_play.values(), key=lambda item: item.request.index)
        for item in running:
            item.task.cancel()
        await asyncio.gather(*(item.task for item in running), return_exceptions=True)
        self._queue.extendleft(item.request for item in reversed(running))
        self._in_play.clear()

    def partial_groups(self) -> tuple[PartialGroup, ...]:
        """The half-played groups, in the order in which they were begun."""
        return tuple(
            PartialGroup(
                item.request,
                item.begun,
                self._gate.tokens(index),
                self._gate.weight_versions(index),
            )
            for index, item in sorted(self._in_play.items())
        )

    def state_dict(self) -> dict[str, Any]:
        """What must be played again after a restart, as JSON values.

        A half-played group is live: its environments stand in this process. After a restart its
        visit is begun afresh, with the same seeds; so is one that is finished and not trained on.
        """
        waiting = [
            *(item.request for item in self._in_play.values()),
            *(_request(group) for _, group in self._ready),
            *self._queue,
        ]
        return {
            "version": _VERSION,
            "iteration": self.iteration,
            "pending": [
                {"index": r.index, "task": r.task.id, "visit": r.visit}
                for r in sorted(waiting, key=lambda request: request.index)
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any], tasks: Mapping[str, Any]) -> None:
        """Go on where a saved manager stood.

        Args:
            state: What `state_dict` gave.
            tasks: The tasks of the prompt source by id.

        Raises:
            DataError: The state is of another version, or a pending task is no longer there.
        """
        if state.get("version") != _VERSION:
            raise DataError(
                f"rollout state: version {state.get('version')!r} cannot be read; expected "
                f"{_VERSION}"
            )
        missing = [row["task"] for row in state["pending"] if row["task"] not in tasks]
        if missing:
            raise DataError(
                f"rollout state: task {missing[0]!r} is half played and no longer in the prompt "
                "source; resume with the same one, or start a new run"
            )
        self.iteration = int(state["iteration"])
        self._queue = deque(
            GroupRequest(row["index"], tasks[row["task"]], row["visit"]) for row in state["pending"]
        )

    async def _restart_stale(self) -> int:
        bound = self._how.max_staleness
        if bound is None:
            return 0
        stale = [i for i in self._in_play.values() if self.iteration - i.begun > bound]
        old = [(begun, group) for begun, group in self._ready if self.iteration - begun > bound]
        for item in stale:
            item.task.cancel()
            self._forget(item)
        await asyncio.gather(*(item.task for item in stale), return_exceptions=True)
        self._ready = [pair for pair in self._ready if pair not in old]
        again = [*(item.request for item in stale), *(_request(group) for _, group in old)]
        self._queue.extend(sorted(again, key=lambda request: request.index))
        return len(again)

    def _resume(self, count: int) -> None:
        chosen = choose(self._how.buffer_filter, self.partial_groups(), count)
        self._going = {group.request.index for group in chosen}
        self._gate.open(self._going)

    def _top_up(self, target: int) -> None:
        """Have `target` groups going, begun anew where too few half-played ones go on."""
        for _ in range(target - len(self._going)):
            request = self._queue.popleft() if self._queue else self._buffer.draw(1)[0]
            self._begin(request)

    def _begin(self, request: GroupRequest) -> None:
        async def play() -> Group:
            GROUP.set(request.index)
            return await self._play(request)

        task = asyncio.create_task(play(), name=f"group {request.index}")
        self._in_play[request.index] = _InPlay(request, self.iteration, task)
        self._going.add(request.index)
        self._gate.open([request.index])

    async def _take_finished(self, filling: Filling) -> None:
        """Wait for the next groups to finish; those that the batch no longer needs wait."""
        running = {item.task: item for item in self._in_play.values()}
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        finished = sorted((running[task] for task in done), key=lambda item: item.request.index)
        for item in finished:
            self._forget(item)
            if item.task.exception() is None:
                self._ready.append((item.begun, item.task.result()))
        for item in finished:
            item.task.result()
        while self._ready and filling.missing:
            await filling.take(self._ready.pop(0)[1])

    def _forget(self, item: _InPlay) -> None:
        del self._in_play[item.request.index]
        self._going.discard(item.request.index)
        self._gate.forget(item.request.index)


def _request(group: Group) -> GroupRequest:
    return GroupRequest(group.index, group.task, group.visit)
