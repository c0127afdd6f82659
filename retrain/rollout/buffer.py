"""`DataBuffer`: which task comes next, and how often each has been visited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from retrain.errors import DataError
from retrain.rollout.buffer_state import VERSION, Position, read_position
from retrain.rollout.partial import BufferFilter, PartialGroup, choose, pop_first
from retrain.rollout.request import GroupRequest
from retrain.rollout.state_file import differences
from retrain.rollout.task_digest import digest_tasks, require_same_tasks
from retrain.seeds import derive_seed
from retrain.types import Task


class DataBuffer:
    """Draws tasks in shuffled epochs, and takes half-played groups back.

    Draw number `i` of a run is task number `i % len(tasks)` of epoch `i // len(tasks)`, whose order
    is a function of (seed, epoch, task ids) alone. So what is drawn depends neither on when nor on
    the order of the prompt source, and a resumed run draws what the first one would have drawn.

    With `ranks` processes, process `rank` has every `ranks`-th draw, from draw `rank` on: no two
    have one in common, together they have them all, and none runs ahead by more than it draws.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        seed: int,
        shuffle: bool = True,
        rank: int = 0,
        ranks: int = 1,
        buffer_filter: BufferFilter = pop_first,
    ) -> None:
        """Make a buffer.

        Args:
            tasks: The tasks, with distinct ids.
            seed: The run's seed.
            shuffle: False keeps the order of `tasks` in every epoch.
            rank: Which process draws, from 0.
            ranks: How many processes share the draws.
            buffer_filter: Which of the groups that were given back are drawn again first.

        Raises:
            DataError: There is no task.
            ValueError: There is no such rank.
        """
        if not tasks:
            raise DataError("the prompt source holds no task")
        if not 0 <= rank < ranks:
            raise ValueError(f"rank {rank} is none of the {ranks} ranks, 0 to {ranks - 1}")
        self._tasks = tuple(tasks)
        self._seed = seed
        self._shuffle = shuffle
        self._rank, self._ranks = rank, ranks
        self._filter = buffer_filter
        self._position = Position(next=rank)
        self._partial: list[PartialGroup] = []
        self._order: tuple[int, tuple[Task, ...]] = (0, self._epoch_order(0))

    @property
    def epoch(self) -> int:
        """The epoch that the next new draw belongs to."""
        return self._position.next // len(self._tasks)

    @property
    def drawn(self) -> int:
        """How many groups this process has drawn, those drawn again not counted twice."""
        return self._position.count(self._rank, self._ranks)

    @property
    def partial(self) -> tuple[PartialGroup, ...]:
        """The groups that were given back, in the order in which they were."""
        return tuple(self._partial)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks."""
        return self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def draw(self, count: int) -> list[GroupRequest]:
        """Draw `count` tasks: those given back first, then new ones, over the end of an epoch."""
        chosen = choose(self._filter, self._partial, count) if self._partial else ()
        again = {group.request.index for group in chosen}
        self._partial = [g for g in self._partial if g.request.index not in again]
        requests = [group.request for group in chosen]
        return requests + [self._draw_new() for _ in range(count - len(requests))]

    def give_back(self, groups: Iterable[PartialGroup]) -> None:
        """Take groups back that were drawn and not finished.

        Raises:
            ValueError: One of them is here already.
        """
        for group in groups:
            if any(group.request.index == other.request.index for other in self._partial):
                raise ValueError(f"group {group.request.index} was given back twice")
            self._partial.append(group)

    def state_dict(self) -> dict[str, Any]:
        """The position and the groups given back, as JSON values.

        `drawn`, `epoch` and `position` (in the epoch) are for the reader.
        """
        return {
            "version": VERSION,
            "drawn": self.drawn,
            "epoch": self.epoch,
            "position": self._position.next % len(self._tasks),
            **self._setting,
            **self._position.row(),
            "partial": [group.row() for group in self._partial],
            "tasks": self._digest,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a saved buffer stood.

        Args:
            state: What `state_dict` gave: this rank's own, or one of all ranks, as a single process
                or `retrain.rollout.buffer_state:merge_states` gives it. Of the latter, every rank
                takes its share, however many ranks there were.

        Raises:
            DataError: The state is of other tasks, another seed, another version of retrain, or of
                another rank alone.
        """
        position = read_position(state, self._rank, self._ranks)
        if lines := differences(state, {k: v for k, v in self._setting.items() if k != "shard"}):
            raise DataError(f"data state: {'; '.join(lines)}; resume with the same, or begin anew")
        require_same_tasks(state["tasks"], self._digest)
        tasks = {task.id: task for task in self._tasks}
        rows = [r for r in state["partial"] if r["index"] % self._ranks == self._rank]
        self._partial = [PartialGroup.of_row(row, tasks) for row in rows]
        self._position = position

    @cached_property
    def _digest(self) -> dict[str, Any]:
        tasks = sorted(self._tasks, key=lambda task: task.id) if self._shuffle else self._tasks
        return digest_tasks(tasks)

    @property
    def _setting(self) -> dict[str, Any]:
        return {"seed": self._seed, "shuffle": self._shuffle, "shard": [self._rank, self._ranks]}

    def _draw_new(self) -> GroupRequest:
        index = self._position.advance(self._ranks)
        epoch, place = divmod(index, len(self._tasks))
        if self._order[0] != epoch:
            self._order = (epoch, self._epoch_order(epoch))
        return GroupRequest(index, self._order[1][place], epoch)

    def _epoch_order(self, epoch: int) -> tuple[Task, ...]:
        if not self._shuffle:
            return self._tasks
        return tuple(
            sorted(
                self._tasks,
                key=lambda task: derive_seed("shuffle", self._seed, epoch, task.id),
            )
        )
