"""Groups played against an engine that takes its time, token by token, on any clock."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence

from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.rollout.gate import GatedEngine
from retrain.rollout.playing import Visit
from retrain.rollout.request import GroupRequest
from retrain.sample import Status
from retrain.seeds import EpisodeSeed
from retrain.types import Action, FinishReason, Group, Segment, StopReason, Trajectory, Turn


class TimedEngine:
    """Writes as many tokens as the prompt's last id says, one every 0.01 s; can be aborted."""

    def __init__(self, *, abortable: bool = True) -> None:
        self.capabilities = EngineCapabilities(seeded=True, abortable=abortable)
        self.weight_version = "0"
        self.running: Counter[str] = Counter()
        self.written = 0
        self._aborted: set[str] = set()

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        wanted = input_ids[0] - (len(input_ids) - 1)
        ids: list[int] = []
        self.running[session_id] += 1
        try:
            while len(ids) < min(wanted, params.max_tokens):
                if session_id in self._aborted:
                    self._aborted.discard(session_id)
                    return self._answer(ids, FinishReason.ABORT)
                await asyncio.sleep(0.01)
                ids.append(seed % 1000)
            reason = FinishReason.STOP if len(ids) == wanted else FinishReason.LENGTH
            return self._answer(ids, reason)
        finally:
            self.running[session_id] -= 1

    def _answer(self, ids: list[int], reason: FinishReason) -> Generation:
        self.written += len(ids)
        logprobs = (-0.1 - float(self.weight_version),) * len(ids)
        return Generation(tuple(ids), logprobs, reason, weight_version=self.weight_version)

    async def abort(self, session_id: str) -> None:
        if self.capabilities.abortable and self.running[session_id]:
            self._aborted.add(session_id)

    async def release(self, session_id: str) -> None:
        """Nothing is kept."""


def long_tailed(request: GroupRequest, member: int) -> int:
    """How many tokens an episode takes: mostly few, sometimes very many."""
    rng = random.Random(f"{request.task.id} {request.visit} {member}")
    return int(min(400, 4 * rng.paretovariate(1.1)))


class TimedPlay:
    """Plays groups of two episodes of one turn each; counts how often each visit was begun."""

    def __init__(
        self,
        gate: GatedEngine,
        length: Callable[[GroupRequest, int], int] = long_tailed,
        reward: Callable[[GroupRequest, int], float] = lambda request, member: float(member),
    ) -> None:
        self.begun: Counter[tuple[str, int]] = Counter()
        self._gate = gate
        self._length = length
        self._reward = reward

    async def __call__(self, visit: Visit) -> Group:
        request = visit.request
        self.begun[request.task.id, request.visit] += 1
        episodes = await asyncio.gather(*(self._episode(request, member) for member in range(2)))
        return Group(request.index, request.task, request.visit, tuple(episodes), (0.0, 0.0))

    async def _episode(self, request: GroupRequest, member: int) -> Trajectory:
        seed = EpisodeSeed(0, "train", request.task.id, request.visit, member)
        prompt = (self._length(request, member),)
        session = f"{request.index}-{member}"
        params = SamplingParams(max_tokens=1000)
        done = await self._gate.generate(prompt, params, session_id=session, seed=seed.turn(0))
        turn = Turn(
            done.output_ids,
            done.logprobs,
            done.finish_reason,
            Action("a"),
            done.weight_version,
            weight_spans=done.meta.get("weight_spans", ()),
        )
        return Trajectory(
            request.task,
            seed,
            (Segment(prompt, (turn,)),),
            Status.COMPLETED,
            StopReason.TERMINATED,
            reward=self._reward(request, member),
        )
