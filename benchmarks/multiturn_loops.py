"""One workload through TRL's own `environment_factory`, and through retrain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from datasets import Dataset
from multiturn_workload import ENVIRONMENT, Notebook, Workload
from trl import GRPOConfig, GRPOTrainer

from bridges import DataFormatBridge, EnvironmentBridge, EpisodeLimits
from retrain.engine.base import SamplingParams
from retrain.engine.transformers_engine import TransformersEngine
from retrain.environment import make_environment_factory
from retrain.rollout.sources import RowKeys, list_tasks
from retrain.runtime import EventLoopThread
from retrain.sample import Sample
from retrain.seeds import EpisodeSeed
from retrain.types import Task


@dataclass(frozen=True, slots=True)
class Played:
    """What a loop did.

    Attributes:
        seconds: CPU time of the process.
        tokens: The token stream of each episode after its prompt.
        sampled: Which of them the model wrote (1), by episode.
    """

    seconds: float
    tokens: list[list[int]]
    sampled: list[list[int]]


class TimedTrainer(GRPOTrainer):
    """TRL's trainer, with a clock around `_generate` alone.

    `_generate` is generation, parsing and tools; `reset` comes before it and scoring after it.
    """

    played: Played

    def _generate(self, prompts: Any) -> Any:
        began = time.process_time()
        result = super()._generate(prompts)
        seconds = time.process_time() - began
        self.played = Played(seconds, result[1], result[2])
        return result


def nothing(completions: Sequence[Any], **columns: Any) -> list[float]:
    """Rewards that say nothing."""
    return [0.0] * len(completions)


class TRLLoop:
    """A real `GRPOTrainer` with `environment_factory`."""

    def __init__(self, work: Workload, folder: str) -> None:
        """Make the trainer; nothing is trained."""
        self._work = work
        self._trainer = TimedTrainer(
            model=work.model,
            reward_funcs=[nothing],
            args=GRPOConfig(
                output_dir=folder,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                dataloader_pin_memory=False,
                report_to=[],
                per_device_train_batch_size=len(work.rows),
                num_generations=len(work.rows),
                max_completion_length=work.positions,
                temperature=1.0,
            ),
            train_dataset=Dataset.from_list(work.rows),
            processing_class=work.tokenizer,
            environment_factory=Notebook,
        )

    def play(self) -> Played:
        """Generate every episode once."""
        self._trainer._generate_and_score_completions(self._work.rows)
        return self._trainer.played


class RetrainLoop:
    """`EnvironmentBridge` over `TransformersEngine`, up to validated samples."""

    def __init__(self, work: Workload) -> None:
        """Make engine and bridges, once, as a training run does."""
        self._work = work
        self._loop = EventLoopThread()
        self._engine = TransformersEngine(
            work.model, max_slots=len(work.rows), max_seq_len=work.positions
        )
        limits = EpisodeLimits(max_response_len=work.positions, max_context_len=work.positions)
        factory = make_environment_factory(ENVIRONMENT)
        self._bridge = EnvironmentBridge(work.renderer, factory, limits)
        self._tasks = list_tasks(work.rows, RowKeys(), "rows")

    def play(self) -> Played:
        """Play every episode once."""
        began = time.process_time()
        samples = self._loop.run(self._episodes())
        seconds = time.process_time() - began
        return Played(seconds, [s.response_ids for s in samples], [s.loss_mask for s in samples])

    async def _episodes(self) -> list[Sample]:
        return list(await asyncio.gather(*map(self._episode, self._tasks)))

    async def _episode(self, task: Task) -> Sample:
        trajectory = await self._bridge.run(
            task,
            engine=self._engine,
            params=SamplingParams(self._work.positions),
            seed=EpisodeSeed(0, "train", task.id, 0, 0),
        )
        scored = replace(trajectory, reward=0.0)
        (sample,) = DataFormatBridge(self._work.renderer).to_samples(scored)
        return sample

    def close(self) -> None:
        """Stop both threads."""
        self._engine.close()
        self._loop.close()
