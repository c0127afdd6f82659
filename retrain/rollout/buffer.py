"""`DataBuffer`: which task comes next, and how often each has been visited."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from retrain.errors import DataError
from retrain.rollout.request import GroupRequest
from retrain.seeds import derive_seed
from retrain.types import Task

_VERSION = 1


class DataBuffer:
    """Draws tasks in shuffled epochs; its state is a few numbers.

    Every epoch visits every task once. The order of an epoch is a function of (seed, epoch, task
    ids) alone, so a resumed run draws what the first one would have drawn.
    """

    def __init__(self, tasks: Sequence[Task], *, seed: int, shuffle: bool = True) -> None:
        """Make a buffer.

        Args:
            tasks: The tasks, with distinct ids.
            seed: The run's seed.
            shuffle: False keeps the order of `tasks` in every epoch.
        """
        if not tasks:
            raise DataError("the prompt source holds no task")
        self._tasks = tuple(tasks)
        self._seed = seed
        self._shuffle = shuffle
        self._epoch = 0
        self._position = 0
        self._drawn = 0
        self._order = self._epoch_order()
        self._fingerprint = self._hash_tasks()

    @property
    def epoch(self) -> int:
        """The epoch that the next draw belongs to."""
        return self._epoch

    @property
    def drawn(self) -> int:
        """How many groups have been drawn."""
        return self._drawn

    def __len__(self) -> int:
        return len(self._tasks)

    def draw(self, count: int) -> list[GroupRequest]:
        """Draw the next `count` tasks, over the end of an epoch where need be."""
        return [self._draw_one() for _ in range(count)]

    def state_dict(self) -> dict[str, Any]:
        """The position, as JSON values."""
        return {
            "version": _VERSION,
            "epoch": self._epoch,
            "position": self._position,
            "drawn": self._drawn,
            "tasks": self._fingerprint,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a saved buffer stood.

        Raises:
            DataError: The state is of other tasks, another seed, or another version of retrain.
        """
        if state.get("version") != _VERSION:
            raise DataError(
                f"data state: version {state.get('version')!r} cannot be read; expected {_VERSION}"
            )
        if state.get("tasks") != self._fingerprint:
            raise DataError(
                "data state: the prompt source, its shuffle or the seed has changed since the "
                "checkpoint; resume with the same ones, or start a new run"
            )
        self._epoch, self._position = int(state["epoch"]), int(state["position"])
        self._drawn = int(state["drawn"])
        self._order = self._epoch_order()

    def _draw_one(self) -> GroupRequest:
        if self._position == len(self._order):
            self._epoch, self._position = self._epoch + 1, 0
            self._order = self._epoch_order()
        request = GroupRequest(self._drawn, self._order[self._position], self._epoch)
        self._position += 1
        self._drawn += 1
        return request

    def _epoch_order(self) -> tuple[Task, ...]:
        if not self._shuffle:
            return self._tasks
        return tuple(
            sorted(
                self._tasks,
                key=lambda task: derive_seed("shuffle", self._seed, self._epoch, task.id),
            )
        )

    def _hash_tasks(self) -> str:
        """Hash what is drawn: ids, prompts and labels, and the order where it is the file's."""
        rows = [repr((task.id, task.prompt, task.label)) for task in self._tasks]
        key = repr((self._seed, self._shuffle, sorted(rows) if self._shuffle else rows))
        return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
