"""`RemoteEnvironment`: what an episode sees of an environment that lives in a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from retrain.environment.base import ToolSchema
from retrain.errors import EnvironmentFailure, WorkerLost
from retrain.pausing import standing_still
from retrain.rollout.executors.base import PlacedEnvironment, workers_lost
from retrain.rollout.executors.wire import plain, read
from retrain.rollout.executors.world import RemoteWorld
from retrain.types import Action, Observation, StepResult, Task

if TYPE_CHECKING:
    from retrain.rollout.executors.crew import Crew
    from retrain.rollout.executors.pool import WorkerPool
    from retrain.rollout.executors.queue import Seat

SUSPICIOUS = 2
"""Workers that an episode must have lost before it plays alone, so that it takes no others down."""

_SESSIONS = count()


class RemoteEnvironment(PlacedEnvironment):
    """Sends every call to the worker that holds the environment.

    A call that is broken off (a timeout, an abort) is broken off in the worker too; `close` then
    waits until the worker has let go of it, and fails where it does not.
    """

    def __init__(self, pool: WorkerPool, *, worlds: bool) -> None:
        """Make an environment that has no place yet.

        Args:
            pool: Where there are workers.
            worlds: Whether reward functions may read the environment's attributes afterwards.
        """
        self._pool = pool
        self._worlds = worlds
        self._session = next(_SESSIONS)
        self._crew: Crew | None = None
        self._seat: Seat | None = None
        self._playing = False
        self._withdrawal: asyncio.Task[None] | None = None
        self._tools: Sequence[ToolSchema] = ()
        self._world = RemoteWorld(None)

    @property
    def tools(self) -> Sequence[ToolSchema]:
        """The environment's tools, as they were after the last call."""
        return self._tools

    @property
    def rewrites_history(self) -> bool:
        """What the environment says."""
        return self._pool.declared("rewrites_history")

    @property
    def replayable(self) -> bool:
        """What the environment says."""
        return self._pool.declared("replayable")

    @property
    def world(self) -> RemoteWorld:
        """A copy of the environment's attributes, once the episode is over."""
        return self._world

    async def place(self) -> None:
        """Wait for a worker with room and make the environment there.

        Raises:
            EnvironmentFailure: It cannot be made.
            BackendFailure: There is no worker left.
        """
        self._crew = self._pool.crew()
        async with standing_still():
            self._seat = await self._crew.seat(alone=workers_lost() >= SUSPICIOUS)
        self._playing = True
        try:
            made = await self._ask("make")
        except BaseException:
            await self.close()
            raise
        self._seat.worker.proven = True
        self._pool.declare(made["declared"])

    def pause(self) -> None:
        """Let another episode play in this one's place."""
        if self._crew is not None and self._seat is not None and self._playing:
            self._playing = False
            self._crew.queue.release(self._seat)

    async def resume(self) -> None:
        """Wait until this episode may play again."""
        if self._crew is not None and self._seat is not None and not self._playing:
            await self._crew.queue.take_back(self._seat)
            self._playing = True

    async def discover_tools(self) -> Sequence[ToolSchema]:
        """The tools that the environment discovers.

        Raises:
            EnvironmentFailure: It cannot say.
            WorkerLost: The worker ended.
        """
        tools: Sequence[ToolSchema] = tuple((await self._ask("discover"))["discovered"])
        return tools

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin an episode.

        Raises:
            EnvironmentFailure: `reset` failed, or the task holds what JSON cannot.
            WorkerLost: The worker ended.
        """
        answer = await self._ask("reset", task=plain(task, "task"), seed=seed)
        return read(Observation, answer["observation"])

    async def step(self, action: Action) -> StepResult:
        """Answer one action.

        Raises:
            EnvironmentFailure: `step` failed, or the action holds what JSON cannot.
            WorkerLost: The worker ended.
        """
        answer = await self._ask("step", action=plain(action, "action"))
        return read(StepResult, answer["step"])

    async def final_reward(self) -> float:
        """What the whole episode earns.

        Raises:
            EnvironmentFailure: `final_reward` failed.
            WorkerLost: The worker ended.
        """
        reward: float = (await self._ask("final_reward"))["reward"]
        return reward

    async def snapshot(self) -> Any:
        """What `restore` needs to make the environment's state again; None offers none.

        Raises:
            EnvironmentFailure: `snapshot` failed, or gave what JSON cannot hold.
            WorkerLost: The worker ended.
        """
        return (await self._ask("snapshot"))["snapshot"]

    async def restore(self, task: Task, snapshot: Any) -> None:
        """Take a state that `snapshot` gave, in place of `reset`.

        Raises:
            EnvironmentFailure: `restore` failed.
            WorkerLost: The worker ended.
        """
        state = plain(snapshot, "snapshot", types=False)
        await self._ask("restore", task=plain(task, "task"), snapshot=state)

    async def close(self) -> None:
        """Close the environment and give its place back.

        Raises:
            EnvironmentFailure: `close` failed.
            WorkerLost: The worker ended while the episode needed it: a call was broken off and did
                not end, or reward functions may read what is lost.
        """
        crew, seat = self._crew, self._seat
        if crew is None or seat is None:
            return
        busy = True
        try:
            if self._withdrawal is not None:
                await self._withdrawal
            closed = await self._ask("close", world=self._worlds)
            busy = closed["busy"]
            self._world = RemoteWorld(closed["world"])
        except WorkerLost:
            if self._worlds or self._withdrawal is not None:
                raise
        finally:
            self._seat = None
            crew.leave(seat, self._session, playing=self._playing, busy=busy)

    async def _ask(self, call: str, **arguments: Any) -> Mapping[str, Any]:
        if self._seat is None:
            raise EnvironmentFailure(f"{call}: the environment has no place in a worker")
        worker = self._seat.worker
        number = worker.number()
        asked = {"call": call, "session": self._session, **arguments}
        try:
            answer = await worker.exchange(number, asked)
        except asyncio.CancelledError:
            self._withdrawal = asyncio.create_task(worker.withdraw(number))
            raise
        self._tools = tuple(answer.get("tools", self._tools))
        return answer
