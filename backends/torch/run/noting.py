"""What the trainer's weights say of the tokens of an iteration, written into the run folder.

Suffixes: B rows, R response positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from backends.base import Plan
from backends.torch.compute.micro_batches import MicroBatch
from backends.torch.objective import Cost, Objective
from backends.torch.pytorch import PyTorchTrainingBackend
from retrain.report.trainer_logprobs import TrainerRow, write_trainer_logprobs


class NotingObjective:
    """An objective that notes the log-probabilities before the first update with a batch.

    Of several processes each notes the rows that it computes.
    """

    def __init__(
        self, inner: Objective, backend: PyTorchTrainingBackend, run: Path, steps: int
    ) -> None:
        """Note what passes.

        Args:
            inner: Gives each token its loss.
            backend: Says which step is computed.
            run: The run folder, which all processes see.
            steps: Optimizer steps of an iteration.
        """
        self._inner = inner
        self._backend = backend
        self._run = run
        self._steps = steps

    def __call__(self, logprobs_BR: Tensor, micro: MicroBatch) -> Cost:
        """See `Objective`."""
        iteration, done = divmod(self._backend.step, self._steps)
        if not done:
            write_trainer_logprobs(self._run, iteration + 1, _rows(logprobs_BR, micro))
        return self._inner(logprobs_BR, micro)


def note_logprobs(plan: Plan, backend: PyTorchTrainingBackend) -> None:
    """Have a backend of a run note the log-probabilities of its tokens, where it has an engine."""
    if plan.config.algorithm.name == "sft":
        return
    run = plan.config.output_dir.expanduser()
    steps = plan.sizes["optimizer_steps_per_iteration"]
    backend.observe(lambda inner: NotingObjective(inner, backend, run, steps))


def _rows(logprobs_BR: Tensor, micro: MicroBatch) -> Iterator[TrainerRow]:
    """The rows that count: a process with less to compute repeats one with weight 0."""
    for row, logprobs_R in zip(micro.rows, logprobs_BR.tolist(), strict=True):
        if row.weight and row.trained:
            pairs = zip(row.mask, logprobs_R, strict=False)
            values = [value if trained else None for trained, value in pairs]
            yield TrainerRow(row.index, row.part, values)
