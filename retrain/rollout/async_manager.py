"""`AsyncRolloutManager`: batches of samples from any `generate_fn`, without a framework."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from retrain.closing import AsyncClosing
from retrain.compose import episodes_of
from retrain.engine.base import InferenceEngine
from retrain.errors import ConfigError, RewardFailure, boundary
from retrain.reward.advantages import group_advantages
from retrain.reward.values import finite_number
from retrain.rollout.agents import PLAYING, THROUGH
from retrain.rollout.ahead import CollectingAhead
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.config import RewardFn, RolloutBatch, RolloutConfig
from retrain.rollout.gate import GatedEngine
from retrain.rollout.manager import RolloutManager
from retrain.rollout.named_endpoint import NamedEndpoint
from retrain.rollout.partial import PartialGroup
from retrain.rollout.playing import Visit
from retrain.runtime import EventLoopThread
from retrain.sample import Sample
from retrain.types import Group, Task


class AsyncRolloutManager(AsyncClosing):
    """Fills batches of samples; an asynchronous context manager.

    Episodes that `generate_rollout_batch` plays are suspended when a batch is full, and go on from
    their tokens for the next one. Those of another `generate_fn` run on meanwhile. With
    `RolloutConfig.ahead`, the next batch is collected while the last one is trained on.
    """

    def __init__(self, buffer: DataBuffer | Sequence[str | Task], config: RolloutConfig) -> None:
        """Make a manager.

        Args:
            buffer: Draws the tasks; prompts or tasks are drawn in epochs, shuffled with seed 0.
            config: How a batch is made.
        """
        self.config = config
        self.buffer = buffer if isinstance(buffer, DataBuffer) else _buffer(buffer, config)
        self._endpoint = NamedEndpoint()
        self._gate = GatedEngine(self._endpoint)
        self._samples: dict[int, list[Sample]] = {}
        self._manager = RolloutManager(self._play, self.buffer, self._gate, config.filling())
        self._ahead = CollectingAhead(self._manager) if config.ahead else None

    async def close(self) -> None:
        """End what is half played; the buffer has all tasks back that no batch has had."""
        begun = {group.request.index: group for group in self._manager.partial_groups()}
        await (self._ahead or self._manager).close()
        self.buffer.give_back(
            begun.get(request.index) or PartialGroup(request, self._manager.updates)
            for request in self._manager.withdraw()
        )
        self._samples.clear()

    @asynccontextmanager
    async def weights_changing(self) -> AsyncIterator[None]:
        """Change the engine's weights within this context: no group's turn is in the engine.

        Turns that it suspends go on from their tokens afterwards. Each token keeps its logprob and
        the version of the weights that wrote it. Do not wait for a batch within it.
        """
        if self._ahead is None:
            yield
            return
        async with self._ahead.weights_changing():
            yield

    async def generate_batch(self, reward_fn: RewardFn | None = None) -> RolloutBatch:
        """Fill the next batch.

        Args:
            reward_fn: In place of the configuration's, from now on.

        Raises:
            ConfigError: The filter is wrong, or drops more than `max_refills` allows.
            RetrainError: `generate_fn` or the reward function failed.
        """
        if reward_fn is not None:
            self.config = replace(self.config, reward_fn=reward_fn)
        batch = await (self._ahead or self._manager).collect()
        samples = tuple(s for group in batch.groups for s in self._samples[group.index])
        waiting = {request.index for request in self._manager.requests()}
        self._samples = {i: rows for i, rows in self._samples.items() if i in waiting}
        return RolloutBatch(samples, batch.groups, batch.tally)

    def state_dict(self) -> dict[str, Any]:
        """Where the tasks stand, as JSON values; what is in no batch yet is played again."""
        state = self._manager.state_dict()
        again = [
            {"index": g["index"], "task": g["task"]["id"], "visit": g["visit"]}
            for g in (row["group"] for row in state["finished"])
        ]
        rollout = {**state, "pending": state["pending"] + again, "finished": []}
        return {"buffer": self.buffer.state_dict(), "rollout": rollout}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a saved manager stood.

        Raises:
            DataError: The state does not fit the tasks.
        """
        self.buffer.load_state_dict(state["buffer"])
        self._manager.load_state_dict(
            state["rollout"], {task.id: task for task in self.buffer.tasks}
        )

    async def _play(self, visit: Visit) -> Group:
        request, config = visit.request, self.config
        PLAYING.set(request)
        THROUGH.set(self._through)
        tasks = [request.task] * config.n_samples_per_prompt
        samples = list(await config.generate_fn(tasks))
        if config.reward_fn is not None:
            for sample in samples:
                sample.reward = await _reward(config.reward_fn, sample)
        episodes = episodes_of(samples, request, config.n_samples_per_prompt)
        rewards = [episode.reward if episode.valid else None for episode in episodes]
        advantages = group_advantages(config.advantage, rewards)
        _place(samples, request.index * config.n_samples_per_prompt, advantages)
        self._samples[request.index] = samples
        return Group(request.index, request.task, request.visit, episodes, advantages)

    def _through(self, engine: InferenceEngine) -> InferenceEngine:
        self._endpoint.take(engine)
        return self._gate


def generate_rollout_batches(
    buffer: DataBuffer | Sequence[str | Task],
    config: RolloutConfig,
    *,
    update_weights: Callable[[], object] | None = None,
) -> Generator[RolloutBatch, None, None]:
    """Give batch after batch, without end, to a caller that is not asynchronous.

    Args:
        buffer: As `AsyncRolloutManager`'s.
        config: How a batch is made.
        update_weights: Gives the engine new weights. It is called in the caller's thread, when the
            next batch is asked for, and no group's turn is in the engine then.

    Yields:
        Batches; what is half played is ended when the generator is closed.

    Raises:
        ConfigError: `ahead` is set without `update_weights`: nobody would know when they change.
    """
    if config.ahead and update_weights is None:
        raise ConfigError(
            "ahead: the engine writes the next batch while you train; give update_weights, the "
            "function that sends it new weights, so that its turns are suspended meanwhile"
        )
    return _batches(buffer, config, update_weights or _nothing)


def _batches(
    buffer: DataBuffer | Sequence[str | Task],
    config: RolloutConfig,
    update_weights: Callable[[], object],
) -> Generator[RolloutBatch, None, None]:
    with EventLoopThread() as loop:
        manager = AsyncRolloutManager(buffer, config)
        try:
            while True:
                yield loop.run(manager.generate_batch())
                with loop.entered(manager.weights_changing()):
                    update_weights()
        finally:
            loop.run(manager.close())


def _nothing() -> None:
    """Update no weights."""


def _buffer(prompts: Sequence[str | Task], config: RolloutConfig) -> DataBuffer:
    tasks = [
        prompt if isinstance(prompt, Task) else Task(f"prompt-{number}", prompt)
        for number, prompt in enumerate(prompts)
    ]
    return DataBuffer(tasks, seed=0, buffer_filter=config.buffer_filter_fn)


def _place(samples: Sequence[Sample], first: int, advantages: Sequence[float]) -> None:
    """Number a group's episodes over all groups, and give each sample its advantage."""
    places: dict[int | None, int] = {}
    for sample in samples:
        place = places.setdefault(sample.rollout_id, len(places))
        sample.index = sample.rollout_id = first + place
        sample.advantage = 0.0 if sample.remove_sample else advantages[place]


async def _reward(reward_fn: RewardFn, sample: Sample) -> float:
    async with boundary(RewardFailure, "reward_fn"):
        reward = reward_fn(sample)
        return finite_number(await reward if isawaitable(reward) else reward, "reward_fn")
