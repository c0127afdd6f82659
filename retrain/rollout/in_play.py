"""`GroupsInPlay`: the groups that a manager plays, suspended ones included."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from retrain.errors import DataError
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager_state import Pending
from retrain.rollout.partial import BufferFilter, PartialGroup, choose
from retrain.rollout.playing import Play, Visit, Written
from retrain.rollout.request import GroupRequest
from retrain.types import Group


@dataclass(frozen=True, slots=True, eq=False)
class GroupInPlay:
    """A group in play.

    Attributes:
        visit: What is played; another task where the first one failed.
        lane: Its gate, for as long as it is played.
        task: Plays it.
    """

    visit: Visit
    lane: int
    task: asyncio.Task[Group]

    @property
    def finished(self) -> bool:
        """Whether it is over, and neither failed nor was ended."""
        return self.task.done() and not self.task.cancelled() and self.task.exception() is None

    def pending(self) -> Pending:
        """What it plays now, with what was recorded of that before a restart."""
        return Pending(self.visit.request, self.visit.begun, self.visit.records)

    async def recorded(self, pending: Pending, written: Written) -> Pending:
        """Add how far it is, unless it is over or has given way to another task meanwhile.

        Args:
            pending: What `pending` gave.
            written: What the engine has written of a session's running turn.
        """
        save = self.visit.save
        if save is None or self.task.done() or self.visit.request is not pending.request:
            return pending
        records = await save(written)
        same = self.visit.request is pending.request
        return replace(pending, records=records) if same else pending


class GroupsInPlay:
    """The groups in play, by the order in which they were begun."""

    def __init__(self, play: Play, gate: GatedEngine) -> None:
        """Begin with none.

        Args:
            play: Plays one group, through `gate`.
            gate: Stands before the engine.
        """
        self._play = play
        self._gate = gate
        self._groups: dict[int, GroupInPlay] = {}
        self._going: set[int] = set()

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[GroupInPlay]:
        return iter([group for _, group in sorted(self._groups.items())])

    @property
    def going(self) -> int:
        """How many go on towards the batch that is being filled."""
        return len(self._going)

    def begin(self, visit: Visit) -> None:
        """Begin a group.

        Raises:
            DataError: It is in play already.
        """
        self._require_new(visit.request)
        lane = visit.request.index

        async def play() -> Group:
            self._gate.enter(lane)
            return await self._play(visit)

        task = asyncio.create_task(play(), name=f"group {lane}")
        self._groups[lane] = GroupInPlay(visit, lane, task)
        self._going.add(lane)
        self._gate.open([lane])

    def go_on(self, chooses: BufferFilter, count: int) -> None:
        """Let half-played groups go on, at most `count`, as a buffer filter chooses.

        Raises:
            ConfigError: It chooses something else.
        """
        lanes = {group.visit.request.index: group.lane for group in self}
        chosen = choose(chooses, self.partial(), count)
        self._going = {lanes[group.request.index] for group in chosen}
        self._gate.open(self._going)

    async def suspend(self) -> tuple[str, ...]:
        """Suspend them all; no turn of theirs is in the engine when this returns.

        Returns:
            The weight versions that have written since the last time, oldest first.
        """
        self._going.clear()
        return await self._gate.shut()

    def partial(self) -> tuple[PartialGroup, ...]:
        """How far they are, in the order in which they were begun."""
        return tuple(
            PartialGroup(
                group.visit.request,
                group.visit.begun,
                self._gate.tokens(group.lane),
                self._gate.weight_versions(group.lane),
            )
            for group in self
        )

    def take_finished(self) -> list[GroupInPlay]:
        """Give those that have finished; they are in play no more."""
        return self._take([group for group in self if group.finished])

    def take_broken(self) -> list[GroupInPlay]:
        """Give those that have failed, or were ended by someone else; they are in play no more."""
        return self._take([group for group in self if group.task.done() and not group.finished])

    async def end(self, groups: Collection[GroupInPlay]) -> list[GroupInPlay]:
        """End groups.

        Args:
            groups: Those to end.

        Returns:
            Those that are in play no more; one that has finished all the same is not among them.
        """
        for group in groups:
            group.task.cancel()
        await asyncio.gather(*(group.task for group in groups), return_exceptions=True)
        left = [group for group in groups if self._groups.get(group.lane) is group]
        return self._take([group for group in left if not group.finished])

    async def wait(self, until: asyncio.Future[None]) -> None:
        """Wait until one of them is over, or `until` is done."""
        awaited: list[asyncio.Future[Any]] = [group.task for group in self]
        await asyncio.wait([*awaited, until], return_when=asyncio.FIRST_COMPLETED)

    def _take(self, groups: list[GroupInPlay]) -> list[GroupInPlay]:
        for group in groups:
            del self._groups[group.lane]
            self._going.discard(group.lane)
            self._gate.forget(group.lane)
        return groups

    def _require_new(self, request: GroupRequest) -> None:
        playing = [group.visit.request.index for group in self]
        if request.index in (*self._groups, *playing):
            raise DataError(
                f"group {request.index} (task {request.task.id!r}, visit {request.visit}) was "
                "drawn twice, and is in play; expected an index of its own for every draw. If the "
                "run was resumed, resume from another checkpoint"
            )
