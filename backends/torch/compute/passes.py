"""Forward and backward passes over a weighted batch, micro-batch by micro-batch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from backends.torch.compute.logprobs import score
from backends.torch.compute.micro_batches import MicroBatch, make_micro_batch, plan_micro_batches
from backends.torch.losses import weighted_sum
from backends.torch.objective import Cost, Objective
from backends.torch.options import MICRO_BATCH_TOKENS
from backends.torch.processes.ranks import Ranks
from backends.torch.rows import TrainingRow
from retrain.errors import BackendFailure
from retrain.sample import Sample

_TOKENS = "tokens"
_LOSS = "train/loss"


@dataclass(frozen=True, slots=True)
class PassSettings:
    """How passes are made.

    Attributes:
        micro_batch_tokens: Most tokens of a micro-batch, padding included.
        packed: Put rows one behind the other rather than padding them; a backend refuses models
            that read one into the next.
        temperature: Divides the logits, as in sampling.
        autocast: What to compute in; None computes in the weights' type.
        device: Where the model is.
    """

    micro_batch_tokens: int = MICRO_BATCH_TOKENS
    packed: bool = False
    temperature: float = 1.0
    autocast: torch.dtype | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def computing(self) -> AbstractContextManager[object]:
        """Autocast, where it is on."""
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.autocast)


class LossNotFinite(BackendFailure):
    """A loss of NaN or infinity; no step was taken.

    Attributes:
        indices: The rows whose loss it was, by `TrainingRow.index`, of all processes.
        samples: The samples that they were made from, which the loops add.
    """

    def __init__(self, message: str, indices: Sequence[int] = ()) -> None:
        """Take the message, and the rows."""
        super().__init__(message, tuple(indices))
        self.indices = tuple(indices)
        self.samples: list[Sample] = []

    def __str__(self) -> str:
        return str(self.args[0])


@contextmanager
def naming(samples: Mapping[int, Sequence[Sample]]) -> Iterator[None]:
    """Put the samples on a `LossNotFinite` that passes.

    Args:
        samples: By the index that their rows have.
    """
    try:
        yield
    except LossNotFinite as error:
        error.samples = [s for index in error.indices for s in samples.get(index, ())]
        raise


def forward_backward(
    model: nn.Module,
    rows: Sequence[TrainingRow],
    objective: Objective,
    settings: PassSettings,
    ranks: Ranks,
) -> dict[str, float]:
    """Add the gradient of a weighted batch to the model's.

    Rows without a trained token are not computed: they add nothing.

    Args:
        model: The policy.
        rows: The whole batch, the same on every process.
        objective: Gives each token its loss.
        settings: How.
        ranks: Who trains together; each computes its share of the rows.

    Returns:
        `train/loss`, and the mean over the batch's trained tokens of what was measured.

    Raises:
        LossNotFinite: The loss is not; the gradient is of no use then.
    """
    totals: defaultdict[str, Tensor] = defaultdict(lambda: torch.zeros((), device=settings.device))
    suspects: list[tuple[list[TrainingRow], Tensor]] = []
    for part, counts in _micro_batches(rows, settings, ranks):
        micro = make_micro_batch(part, settings.device, packed=settings.packed)
        with settings.computing():
            scored = score(model, micro, temperature=settings.temperature)
        cost = objective(scored.logprobs, micro)
        loss = weighted_sum(cost.losses, micro.mask, micro.weights)
        (loss * ranks.processes).backward()  # type: ignore[no-untyped-call]
        if counts:
            _add(totals, loss, cost, scored.entropy, micro)
            suspects.append((part, (cost.losses.detach() * micro.mask).sum(dim=1)))
    summed = ranks.sums(totals)
    tokens = max(summed.pop(_TOKENS), 1.0)
    loss_sum = summed.pop(_LOSS)
    if not math.isfinite(loss_sum):
        raise _not_finite(loss_sum, ranks.gathered(_suspected(suspects)))
    return {_LOSS: loss_sum, **{name: value / tokens for name, value in summed.items()}}


@torch.no_grad()
def score_rows(
    model: nn.Module,
    rows: Sequence[TrainingRow],
    settings: PassSettings,
    ranks: Ranks | None = None,
) -> list[list[float]]:
    """Log-probabilities of the trained tokens, 0.0 on the others.

    Args:
        model: The policy, or the reference model.
        rows: What to score, the same on every process.
        settings: How.
        ranks: Who scores together; each computes its share, and gets everybody's.

    Returns:
        [B][R].
    """
    ranks = ranks or Ranks()
    worth = sorted(
        (place for place, row in enumerate(rows) if row.trained),
        key=lambda place: -len(rows[place].tokens),
    )
    own = ranks.share(worth)
    lengths = [len(rows[place].tokens) for place in own]
    planned = plan_micro_batches(lengths, settings.micro_batch_tokens, packed=settings.packed)
    missing = ranks.most(len(planned)) - len(planned)  # asked before any pass, by all at once
    scored: list[tuple[int, list[float]]] = []
    for part in planned:
        places = [own[number] for number in part]
        scored += zip(places, _scored(model, [rows[p] for p in places], settings), strict=True)
    for _ in range(missing):
        _scored(model, rows[:1], settings)  # since all gather weights together
    found: list[list[float]] = [[0.0] * len(row.mask) for row in rows]
    for place, values in ranks.gathered(scored):
        found[place] = values
    return found


def _scored(
    model: nn.Module, rows: Sequence[TrainingRow], settings: PassSettings
) -> list[list[float]]:
    micro = make_micro_batch(rows, settings.device, packed=settings.packed)
    with settings.computing():
        logprobs_BR = score(model, micro, temperature=settings.temperature).logprobs
    pairs = zip(rows, logprobs_BR.tolist(), strict=True)
    return [values[: len(row.mask)] for row, values in pairs]


def _micro_batches(
    rows: Sequence[TrainingRow], settings: PassSettings, ranks: Ranks
) -> Iterator[tuple[list[TrainingRow], bool]]:
    """This process's micro-batches, and whether each counts.

    All processes make the same number of passes, since each of them gathers weights together: one
    that has fewer repeats its first with weight 0.
    """
    worth = sorted((row for row in rows if row.trained), key=lambda row: -len(row.tokens))
    own = list(ranks.share(worth)) or [replace(rows[0], mask=(0,) * len(rows[0].mask))]
    budget = settings.micro_batch_tokens
    planned = plan_micro_batches([len(row.tokens) for row in own], budget, packed=settings.packed)
    missing = ranks.most(len(planned)) - len(planned)  # asked before any pass, by all at once
    for part in planned:
        yield [own[place] for place in part], True
    again = [replace(own[place], weight=0.0) for place in planned[0]]
    for _ in range(missing):
        yield again, False


def _add(
    totals: defaultdict[str, Tensor], loss: Tensor, cost: Cost, entropy: Tensor, micro: MicroBatch
) -> None:
    totals[_LOSS] += loss.detach()
    totals[_TOKENS] += micro.mask.sum()
    for name, values in {"train/entropy": entropy, **cost.measured}.items():
        totals[name] += values.masked_fill(micro.mask == 0, 0.0).sum()


def _suspected(parts: Sequence[tuple[list[TrainingRow], Tensor]]) -> list[int]:
    """The indices of this process's rows whose own loss is not finite."""
    return [
        row.index
        for part, sums in parts
        for row, value in zip(part, sums.tolist(), strict=True)
        if not math.isfinite(value)
    ]


def _not_finite(loss: float, suspected: Sequence[int]) -> LossNotFinite:
    wrong = sorted({*suspected})
    which = f" on samples {', '.join(map(str, wrong[:8]))}" if wrong else ""
    return LossNotFinite(
        f"the loss is {loss}{which}: no step was taken; lower learning_rate or max_grad_norm, and "
        "look at these samples' logprobs",
        wrong,
    )
