"""What is trained on: token streams with masks, old log-probabilities and advantages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backends.local.written_by import Masks
from backends.torch.aggregation import Aggregation, token_weights
from retrain.errors import BackendFailure, DataError
from retrain.sample import Sample


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One token stream.

    Attributes:
        tokens: [T] prompt and response.
        mask: [R] 1 on the response tokens that are trained on.
        old: [R] log-probabilities that the importance ratio is taken against.
        advantage: The advantage of every trained token.
        index: The number of its rollout, which its other streams share.
        part: Which of its rollout's streams it is, from 0.
        weight: What a unit of a token's loss adds to its step's loss.
        engine: [R] the engine's log-probabilities, where `old` holds others; empty where it does
            not.
        reference: [R] the reference model's; empty where no KL term needs them.
        current: [R] 1 on the tokens that the present weights wrote; of all rows of a batch, or
            empty where they wrote the whole batch.
    """

    tokens: tuple[int, ...]
    mask: tuple[int, ...]
    old: tuple[float, ...]
    advantage: float = 0.0
    index: int = 0
    part: int = 0
    weight: float = 1.0
    engine: tuple[float, ...] = ()
    reference: tuple[float, ...] = ()
    current: tuple[int, ...] = ()

    @property
    def trained(self) -> int:
        """How many tokens are trained on."""
        return sum(self.mask)

    @property
    def prompt_length(self) -> int:
        """P, tokens before the response."""
        return len(self.tokens) - len(self.mask)


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """The rows of one or several optimizer steps, in the order of their rollouts."""

    rows: tuple[TrainingRow, ...]

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> TrainingBatch:
        """Take samples; those of one rollout must stand together.

        Raises:
            DataError: There are none, or one breaks what every trainer relies on
                (`Sample.validate`).
            BackendFailure: A sample holds images.
        """
        if not samples:
            raise DataError("a batch to train on has no samples")
        rows: list[TrainingRow] = []
        for place, sample in enumerate(samples):
            try:
                sample.validate()
            except ValueError as error:
                raise DataError(str(error)) from error
            if sample.multimodal_inputs:
                raise BackendFailure(
                    f"sample {sample.index} holds images: the torch backend trains on text only; "
                    "use algorithm.backend: trl or slime"
                )
            index = index_of(sample, place)
            part = rows[-1].part + 1 if rows and rows[-1].index == index else 0
            rows.append(_row(sample, index, part))
        return cls(tuple(rows))

    def steps(self, rollouts: int) -> list[TrainingBatch]:
        """Cut it into optimizer steps.

        Args:
            rollouts: Rollouts of one step; the last one may have fewer.
        """
        order = list(dict.fromkeys(row.index for row in self.rows))
        step_of = {index: place // rollouts for place, index in enumerate(order)}
        count = -(-len(order) // rollouts)
        parts: list[list[TrainingRow]] = [[] for _ in range(count)]
        for row in self.rows:
            parts[step_of[row.index]].append(row)
        return [TrainingBatch(tuple(part)) for part in parts]

    def weighted(self, aggregation: Aggregation, constant: int = 1) -> TrainingBatch:
        """Give every row its weight in the loss, for a batch that is one optimizer step."""
        trained = [row.trained for row in self.rows]
        rollouts = [row.index for row in self.rows]
        weights = token_weights(trained, rollouts, aggregation, constant)
        pairs = zip(self.rows, weights, strict=True)
        return TrainingBatch(tuple(replace(row, weight=weight) for row, weight in pairs))

    def numbered(self) -> TrainingBatch:
        """Let every row be a rollout of its own, so that one that is drawn twice counts twice."""
        return TrainingBatch(
            tuple(replace(row, index=place, part=0) for place, row in enumerate(self.rows))
        )

    def with_old(self, logprobs: Sequence[Sequence[float]]) -> TrainingBatch:
        """Take the ratio against these log-probabilities, and keep the engine's beside them.

        Args:
            logprobs: [B][R] the trainer's own, before its first update on the batch.
        """
        pairs = zip(self.rows, logprobs, strict=True)
        return TrainingBatch(
            tuple(replace(row, engine=row.old, old=tuple(found)) for row, found in pairs)
        )

    def with_current(self, masks: Masks) -> TrainingBatch:
        """Add which tokens the present weights wrote, where others wrote some of them.

        Args:
            masks: [R] of each row, by its index and part; none where they wrote everything.
        """
        if not masks:
            return self
        none: tuple[int, ...] = (0,)
        return TrainingBatch(
            tuple(replace(r, current=masks.get((r.index, r.part)) or none) for r in self.rows)
        )

    def with_reference(self, logprobs: Sequence[Sequence[float]]) -> TrainingBatch:
        """Add the reference model's log-probabilities, [B][R]."""
        pairs = zip(self.rows, logprobs, strict=True)
        return TrainingBatch(tuple(replace(row, reference=tuple(found)) for row, found in pairs))


def index_of(sample: Sample, place: int) -> int:
    """The index of a sample's row: its rollout's number, its own, or its place in the batch."""
    given = (sample.rollout_id, sample.index)
    return next((number for number in given if number is not None), place)


def by_index(samples: Sequence[Sample]) -> dict[int, list[Sample]]:
    """The samples of a batch by the index of their rows."""
    found: dict[int, list[Sample]] = {}
    for place, sample in enumerate(samples):
        found.setdefault(index_of(sample, place), []).append(sample)
    return found


def _row(sample: Sample, index: int, part: int) -> TrainingRow:
    return TrainingRow(
        tokens=tuple(sample.tokens),
        mask=tuple(sample.loss_mask),
        old=tuple(sample.rollout_log_probs),
        advantage=sample.advantage,
        index=index,
        part=part,
    )
