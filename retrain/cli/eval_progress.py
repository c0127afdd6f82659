"""How far an evaluation is: a live bar on standard error, where that is a terminal."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from retrain.report.batch_metrics import batch_metrics

if TYPE_CHECKING:
    from bridges import RolloutBridge
    from retrain.report.progress import Progress
    from retrain.rollout.request import GroupRequest
    from retrain.types import Group

Shown = Callable[["Group"], None]
"""Told of every task that is done."""

_FACTS_SECONDS = 0.5


@contextmanager
def make_eval_progress(total: int, title: str, *, quiet: bool) -> Iterator[Shown]:
    """Show progress while the block runs; nothing where standard error is no live terminal.

    Args:
        total: How many tasks are played.
        title: What is evaluated.
        quiet: True shows nothing.
    """
    if quiet or not sys.stderr.isatty():
        yield _nothing
        return
    from retrain.report.live_progress import LiveProgress, can_be_live

    if not can_be_live(sys.stderr):
        yield _nothing
        return
    progress = LiveProgress(sys.stderr)
    progress.start(total, title)
    try:
        yield _Tally(progress, total)
    finally:
        progress.stop()


async def collect_shown(
    bridge: RolloutBridge, requests: Sequence[GroupRequest], shown: Shown
) -> list[Group]:
    """Play `requests` as `RolloutBridge.collect` does, and tell of each that is done.

    Raises:
        RetrainError: As `RolloutBridge.collect`.
    """

    async def play(request: GroupRequest) -> Group:
        (group,) = await bridge.collect([request])
        shown(group)
        return group

    return await asyncio.gather(*map(play, requests))


class _Tally:
    """Counts tasks, and shows the means so far now and then."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._groups: list[Group] = []
        self._began = self._shown = time.monotonic()

    def __call__(self, group: Group) -> None:
        self._groups.append(group)
        now = time.monotonic()
        done = len(self._groups)
        due = now - self._shown >= _FACTS_SECONDS or done == self._total
        facts = batch_metrics(self._groups, seconds=now - self._began) if due else {}
        self._shown = now if due else self._shown
        self._progress.update(done, facts)


def _nothing(group: Group) -> None:
    """Show nothing."""
