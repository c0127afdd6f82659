"""`BridgedRollouts`: the configured environment, rewards and data as the loop's batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from backends.local.written_by import oldest_step
from backends.recorder import Recorder
from bridges import RolloutBridge
from retrain.compose import Composition
from retrain.engine.base import InferenceEngine
from retrain.report.filling_metrics import filling_metrics, stale_tokens
from retrain.rollout.ahead import CollectingAhead
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.config import RolloutBatch
from retrain.rollout.filling import Batch, OverSampling
from retrain.rollout.request import GroupRequest
from retrain.sample import Sample
from retrain.types import Group, Task


class BridgedRollouts:
    """Collects by the bridges, records what it collected, and keeps where the data stand.

    Attributes:
        last: The samples of the batch that was given last.
    """

    def __init__(
        self,
        composition: Composition,
        engine: InferenceEngine,
        buffer: DataBuffer,
        how: OverSampling,
        recorder: Recorder,
        *,
        iterations: int,
        steps: int = 1,
        ahead: bool = False,
    ) -> None:
        """Make the source of batches.

        Args:
            composition: The bridges.
            engine: Writes the turns.
            buffer: Draws the tasks.
            how: How a batch is filled.
            recorder: Records each batch before it is trained on.
            iterations: Of the run; nothing is collected beyond the last one.
            steps: Optimizer steps between two updates of the engine's weights.
            ahead: Collect the next batch while the last one is trained on.

        Raises:
            ConfigError: The batches cannot be collected ahead.
        """
        self.last: Sequence[Sample] = ()
        self._composition = composition
        self._buffer = buffer
        self._how = how
        self._recorder = recorder
        self._iterations = iterations
        self._steps = steps
        self._manager = composition.rollouts(engine).managed(buffer, how)
        self._ahead = CollectingAhead(self._manager) if ahead else None
        self._iteration = 0
        self._version = ""
        self._engine = engine

    async def generate_batch(self) -> RolloutBatch:
        """See `rl_loop.Rollouts`."""
        began = time.perf_counter()
        self._iteration += 1
        batch = await self._collect()
        rewards = self._composition.rewards
        groups = rewards.settle(sorted(batch.groups, key=lambda group: group.index))
        written = frozenset({self._version}) if self._ahead else frozenset(batch.versions)
        fresh = written if self._how.mask_stale else None
        convert = self._composition.data_format.group_samples
        samples = [s for g in groups for slot in convert(g, fresh=fresh) for s in slot]
        seconds = time.perf_counter() - began if self._ahead is None else self._ahead.seconds
        extra = {
            **filling_metrics(self._how, batch.tally, groups, written),
            **self._age(groups, written),
            **rewards.calculator.measured(),
        }
        record = self._recorder.collected  # writes files: not on the loop, where episodes play
        await asyncio.to_thread(record, self._iteration, groups, samples, seconds, extra)
        self.last = samples
        return RolloutBatch(tuple(samples), tuple(groups), batch.tally)

    @asynccontextmanager
    async def weights_changing(self) -> AsyncIterator[None]:
        """See `rl_loop.Rollouts`; before the first batch nothing plays, and no change is counted.

        A restored run gets the weights that its groups have seen.
        """
        if self._ahead is None or not self._version:
            yield
        else:
            async with self._ahead.weights_changing():
                yield
        self._version = str(getattr(self._engine, "weight_version", ""))

    async def state(self) -> dict[str, Any]:
        """What a resume needs, as JSON values.

        The buffer's place is taken with no wait before the manager's: environments run on, and one
        that fails may draw another task at any time.
        """
        position = self._buffer.state_dict()
        rollout = await self._manager.saved_state()
        rewards = self._composition.rewards.state_dict()
        return {
            "iteration": self._iteration,
            "data": position,
            "rollout": rollout,
            "rewards": rewards,
        }

    def load(self, state: Mapping[str, Any], tasks: Sequence[Task]) -> None:
        """Go on where `state` was taken.

        Raises:
            DataError: It does not fit the tasks.
        """
        self._iteration = int(state["iteration"])
        self._buffer.load_state_dict(state["data"])
        self._composition.rewards.load_state_dict(state["rewards"])
        self._manager.load_state_dict(state["rollout"], {task.id: task for task in tasks})

    async def close(self) -> None:
        """End what is half played."""
        await (self._ahead or self._manager).close()

    async def _collect(self) -> Batch:
        if self._ahead is None:
            return await self._manager.collect()
        return await self._ahead.collect(last=self._iteration >= self._iterations)

    def _age(self, groups: Sequence[Group], written: frozenset[str]) -> dict[str, float]:
        if self._ahead is None:
            return {}
        present = int(self._version.partition("-")[0])
        oldest = oldest_step(groups)
        age = 0 if oldest is None else (present - oldest) // self._steps
        return {
            "rollout/stale_tokens": float(stale_tokens(groups, written)),
            "rollout/staleness": float(age),
        }


class HeldOut:
    """Plays the held-out tasks and records them."""

    def __init__(
        self,
        tasks: Sequence[Task],
        rollouts: RolloutBridge,
        composition: Composition,
        recorder: Recorder,
    ) -> None:
        """Make an evaluation.

        Args:
            tasks: What is held out; none evaluates nothing.
            rollouts: Plays and scores, with the evaluation's sampling.
            composition: Turns episodes into samples.
            recorder: Records them.
        """
        self._requests = [GroupRequest(place, task, 0) for place, task in enumerate(tasks)]
        self._rollouts = rollouts
        self._convert = composition.data_format.group_samples
        self._recorder = recorder

    async def run(self, iteration: int) -> None:
        """Evaluate now; iteration 0 is before training."""
        if not self._requests:
            return
        began = time.perf_counter()
        groups = await self._rollouts.collect(self._requests)
        samples = [s for group in groups for slot in self._convert(group) for s in slot]
        seconds = time.perf_counter() - began
        await asyncio.to_thread(self._recorder.evaluated, iteration, groups, samples, seconds)
