"""`JobWatch`: tells the user when a job says nothing, and when a node leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from backends.slime.cluster import RayCluster

_LOOK_SECONDS = 5.0


class JobWatch:
    """Looks at a running job from time to time; it only tells, and stops nothing.

    A step of a large model may take long, so silence ends nothing.
    """

    def __init__(
        self,
        cluster: RayCluster,
        note: Callable[[str], None],
        silence: float,
        *,
        every: float = _LOOK_SECONDS,
    ) -> None:
        """Make a watch.

        Args:
            cluster: Where the job runs.
            note: Shows a message.
            silence: Seconds without a line after which the user is told, and again each time.
            every: Seconds between two looks.
        """
        self._cluster = cluster
        self._note = note
        self._silence = silence
        self._every = min(every, silence)
        self._heard_at = time.monotonic()
        self._told = 0
        self._nodes: dict[str, str] = {}

    def heard(self) -> None:
        """The job has said something."""
        self._heard_at = time.monotonic()
        self._told = 0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            self._tell_silence()
            await self._tell_left()

    def _tell_silence(self) -> None:
        quiet = time.monotonic() - self._heard_at
        if quiet < self._silence * (self._told + 1):
            return
        self._told += 1
        self._note(
            f"slime has said nothing for {quiet / 60:.0f} min; it is left running. See what it "
            f"waits for at {self._cluster.address} (ray stack on its nodes), or press Ctrl-C"
        )

    async def _tell_left(self) -> None:
        try:
            nodes = await asyncio.to_thread(self._cluster.nodes)
        except (OSError, ValueError, KeyError, TypeError):
            return  # the follower finds out whether the server is gone
        now = {node.id: node.ip for node in nodes}
        for left in self._nodes.keys() - now.keys():
            self._note(f"the node {self._nodes[left]} has left Ray: the job will fail or wait")
        self._nodes = now
