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
from backends.torch.compute.futures import TrainFuture
from backends.torch.compute.micro_batches import MicroBatch
from backends.torch.losses import weighted_sum
from backends.torch.objective import Cost, Objective
from backends.torch.protocol import Metrics, TrainingBackend
from backends.torch.rl_loop import run_rl_training
from backends.torch.rows import TrainingBatch, TrainingRow
from backends.torch.run.assembling import make_training_backend, objective, rl_config
from backends.torch.run.bridged import BridgedRollouts
from backends.torch.run.planning import make_plan
from backends.torch.weight_sync import Engines
from retrain.compose import compose, load_engine
from retrain.config import RunConfig
from retrain.parity import LossReading, LossRow, Recorded, RecordedOrder
from retrain.parity.rows import Place, rewards_by_name
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
    plan = make_plan(_without_servers(recorded.planned))
    plan.require_runnable()
    reader = LossReader(objective(plan), plan.arguments["kl_coef"])
    with TemporaryDirectory() as folder:
        asyncio.run(_train(plan, recorded, reader, Path(folder)))
    return LossReading(
        backend="torch",
        source="the micro-batches of a PyTorchTrainingBackend",
        rows=tuple(reader.read),
        aggregation=plan.arguments["aggregation"],
        constant=plan.arguments["constant"],
    )


def _without_servers(config: RunConfig) -> RunConfig:
    """The configuration without what is for servers: the tape stands in for them."""
    if "colocate" not in config.algorithm.hyperparameters.prefixed("torch"):
        return config
    document = config.model_dump(mode="json")
    del document["algorithm"]["hyperparameters"]["torch_colocate"]
    return RunConfig.model_validate(document).located(config.base_dir)


class LossReader:
    """An objective that notes what it is given.

    Attributes:
        read: The rows, in the order trained.
        samples: The samples that they were made from, by index.
        steps: The optimizer step that each row is of, also where it is not computed.
        backend: What trains; says which step is computed.
        kl_coef: The objective's, which says that there must be a reference model.
    """

    def __init__(self, inner: Objective, kl_coef: float) -> None:
        """Read for `inner`."""
        self.read: list[LossRow] = []
        self.samples: dict[int, list[Sample]] = {}
        self.steps: dict[Place, int] = {}
        self.backend: Any = None
        self.kl_coef = kl_coef
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
        return [
            _untrained(sample, index, part, self.steps[index, part])
            for index, slot in self.samples.items()
            for part, sample in enumerate(slot)
            if (index, part) not in read
        ]

    def _weights(self, micro: MicroBatch) -> Tensor:
        """[B, R] what a unit of each token's loss adds, read from the loss itself.

        Where the ratio is 1, its derivative by a token's log-probability is the KL term's, which
        the advantage does not change, minus the token's weight times the advantage.
        """
        return self._slope(micro, 0.0) - self._slope(micro, 1.0)

    def _slope(self, micro: MicroBatch, advantage: float) -> Tensor:
        """[B, R] the derivative of the loss by log-probabilities that are all equal."""
        zeros_BR = torch.zeros_like(micro.mask)
        probe_BR = zeros_BR.clone().requires_grad_()
        probed = replace(
            micro,
            old=zeros_BR,
            engine=zeros_BR,
            advantages=torch.full_like(zeros_BR, advantage),
            reference=None if micro.reference is None else zeros_BR,
        )
        cost = self._inner(probe_BR, probed)
        loss = weighted_sum(cost.losses, micro.mask, micro.weights)
        (gradient_BR,) = torch.autograd.grad(loss, probe_BR)
        return gradient_BR

    def _row(self, micro: MicroBatch, place: int, row: TrainingRow, weights_BR: Tensor) -> LossRow:
        """One row of the micro-batch, its padding removed.

        Under `tis` the ratio is taken against the trainer's log-probabilities, and the engine's
        stand beside them.
        """
        sample = self.samples[row.index][row.part]
        length = len(row.mask)
        engine_BR = micro.engine if row.engine else micro.old
        return LossRow(
            index=row.index,
            part=row.part,
            tokens=_tokens(micro, place),
            mask=tuple(int(flag) for flag in micro.mask[place][:length].tolist()),
            logprobs=tuple(engine_BR[place][:length].tolist()),
            reward=_reward(sample),
            advantage=float(micro.advantages[place][0]),
            weights=tuple(weights_BR[place][:length].tolist()),
            step=self.backend.step,
            rewards=rewards_by_name(sample),
        )


class _Stepping:
    """A training backend that tells the reader which rows each optimizer step is of."""

    def __init__(self, backend: TrainingBackend, reader: LossReader) -> None:
        self._backend = backend
        self._reader = reader
        self._steps = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def forward_backward(self, batch: TrainingBatch) -> TrainFuture[Metrics]:
        self._reader.steps.update(
            dict.fromkeys(((r.index, r.part) for r in batch.rows), self._steps)
        )
        self._steps += 1
        return self._backend.forward_backward(batch)


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
        watched: Any = _Stepping(backend, reader)
        await run_rl_training(watched, rollouts, Engines([]), settings)
    reader.read.extend(reader.missing())
    engine.close()


def _tokens(micro: MicroBatch, place: int) -> tuple[int, ...]:
    """A row's tokens as the model is given them, padded or packed."""
    if micro.attention is not None:
        return tuple(micro.ids[place][micro.attention[place].bool()].tolist())
    start = sum(len(row.tokens) for row in micro.rows[:place])
    return tuple(micro.ids[0][start : start + len(micro.rows[place].tokens)].tolist())


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
