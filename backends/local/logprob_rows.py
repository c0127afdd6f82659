"""The trainer's logprobs as rows of the run folder.

Suffixes: B rows, T padded completion length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from retrain.report.sample_notes import SampleNotes
from retrain.report.trainer_logprobs import TrainerRow
from retrain.sample import Sample


def trainer_rows(rows: Sequence[Sample], logps_BT: torch.Tensor) -> Iterator[TrainerRow]:
    """The logprobs of each sample's trained tokens; a sample without an index is left out.

    Args:
        rows: The samples.
        logps_BT: Their responses' logprobs, padded on the right.
    """
    for sample, logps_T in zip(rows, logps_BT.tolist(), strict=True):
        if sample.index is not None:
            pairs = zip(sample.loss_mask, logps_T, strict=False)
            values = [value if trained else None for trained, value in pairs]
            yield TrainerRow(sample.index, SampleNotes.of(sample).segment - 1, values)
