"""What enters the native loop's loss when a tape is played: real steps, read and thrown away.

Suffixes: B rows, R response positions.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from backends.base import Plan
from backends.recorder import SilentRecorder
from backends.torch.assembling import make_training_backend, objective, rl_config
from backends.torch.bridged import BridgedRollouts
from backends.torch.losses import weighted_sum
from backends.torch.micro_batches import MicroBatch
from backends.torch.objective import Cost, Objective
from backends.torch.planning import make_plan
from backends.torch.rl_loop import run_rl_training
from backends.torch.rows import TrainingRow
from backends.torch.weight_sync import Engines
from retrain.compose import compose, load_engine
from retrain.parity import LossReading, LossRow, Recorded, RecordedOrder
from retrain.parity.rows import rewards_by_name
from retrain.rollout.config import RolloutBatch
from retrain.rollout.filling import OverSampling
from retrain.sample import Sample


def read_loss(recorded: Recorded) -> LossReading:
    """Train on a tape in memory, and tell what entered the loss.

    The configured model takes real steps, which are thrown away; nothing is written.

    Args:
        recorded: The tape's groups, and the configuration that plays them.

    Raises:
        ConfigError: The backend cannot honour the configuration.
    """
    plan = make_plan(recorded.planned)
    plan.require_runnable()
    plan = replace(plan, arguments={**plan.arguments, "packing": False})
    reader = LossReader(objective(plan))
    with TemporaryDirectory() as folder:
        asyncio.run(_train(plan, recorded, reader, Path(folder)))
    return LossReading(
        backend="torch",
        source="the micro-batches of a PyTorchTrainingBackend",
        rows=tuple(reader.read),
        aggregation=plan.arguments["aggregation"],
        constant=plan.arguments["constant"],
    )


class LossReader:
    """An objective that notes what it is given.

    Attributes:
        read: The rows, in the order trained.
        samples: The samples that they were made from, by index.
        backend: What trains; says which step is computed.
    """

    def __init__(self, inner: Objective) -> None:
        """Read for `inner`."""
        self.read: list[LossRow] = []
        self.samples: dict[int, list[Sample]] = {}
        self.backend: Any = None
        self._inner = inner

    def __call__(self, logprobs_BR: Tensor, micro: MicroBatch) -> Cost:
        """See `Objective`."""
        weights_BR = self._weights(micro)
        for place, row in enumerate(micro.rows):
            self.read.append(self._row(micro, place, row, weights_BR))
        return self._inner(logprobs_BR, micro)

    def missing(self) -> list[LossRow]:
        """Rows of samples that were not computed, as they train nothing."""
        read = {row.place for row in self.read}
        step = {row.index: row.step for row in self.read}
        last = max(step.values(), default=0)
        return [
            _untrained(sample, index, part, step.get(index, last))
            for index, slot in self.samples.items()
            for part, sample in enumerate(slot)
            if (index, part) not in read
        ]

    def _weights(self, micro: MicroBatch) -> Tensor:
        """[B, R] what a unit of each token's loss adds, read from the loss itself.

        Where the ratio and the advantages are 1, its derivative by a token's log-probability is
        minus that token's weight.
        """
        zeros_BR = torch.zeros_like(micro.mask)
        probe_BR = zeros_BR.clone().requires_grad_()
        probed = replace(
            micro,
            old=zeros_BR,
            engine=zeros_BR,
            advantages=torch.ones_like(zeros_BR),
            reference=None if micro.reference is None else zeros_BR,
        )
        cost = self._inner(probe_BR, probed)
        loss = weighted_sum(cost.losses, micro.mask, micro.weights)
        (gradient_BR,) = torch.autograd.grad(loss, probe_BR)
        return -gradient_BR

    def _row(self, micro: MicroBatch, place: int, row: TrainingRow, weights_BR: Tensor) -> LossRow:
        """One row of the micro-batch, its padding removed."""
        sample = self.samples[row.index][row.part]
        assert micro.attention is not None
        there = micro.attention[place].bool()
        length = len(row.mask)
        return LossRow(
            index=row.index,
            part=row.part,
            tokens=tuple(micro.ids[place][there].tolist()),
            mask=tuple(int(flag) for flag in micro.mask[place][:length].tolist()),
            logprobs=tuple(micro.old[place][:length].tolist()),
            reward=_reward(sample),
            advantage=float(micro.advantages[place][0]),
            weights=tuple(weights_BR[place][:length].tolist()),
            step=self.backend.step,
            rewards=rewards_by_name(sample),
        )


class _Kept(BridgedRollouts):
    """Batches whose samples the reader gets too."""

    reader: LossReader

    async def generate_batch(self) -> RolloutBatch:
        batch = await super().generate_batch()
        for sample in batch.samples:
            assert sample.index is not None
            self.reader.samples.setdefault(sample.index, []).append(sample)
        return batch


async def _train(plan: Plan, recorded: Recorded, reader: LossReader, folder: Path) -> None:
    config = recorded.config
    composition = compose(config)
    engine = load_engine(config.rollout.engine, composition)
    in_memory = replace(plan, config=plan.config.model_copy(update={"output_dir": folder}))
    rollouts = _Kept(
        composition,
        engine,
        RecordedOrder(recorded.requests),
        OverSampling(config.algorithm.hyperparameters.rollout_batch_size),
        SilentRecorder(),
        iterations=plan.sizes["iterations"],
    )
    rollouts.reader = reader
    with make_training_backend(in_memory, None, loss=reader) as backend:
        reader.backend = backend
        settings = replace(rl_config(plan.arguments), checkpoint_every=None)
        await run_rl_training(backend, rollouts, Engines([]), settings)
    reader.read.extend(reader.missing())
    engine.close()


def _untrained(sample: Sample, index: int, part: int, step: int) -> LossRow:
    return LossRow(
        index=index,
        part=part,
        tokens=tuple(sample.tokens),
        mask=tuple(sample.loss_mask),
        logprobs=tuple(sample.rollout_log_probs),
        reward=_reward(sample),
        advantage=sample.advantage,
        weights=(0.0,) * sample.response_length,
        step=step,
        rewards=rewards_by_name(sample),
    )


def _reward(sample: Sample) -> Any:
    return None if sample.remove_sample else sample.reward
