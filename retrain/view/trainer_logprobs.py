"""The trainer's logprobs of the rows of an episode, where the run recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retrain.errors import DataError
from retrain.report.trainer_logprobs import read_trainer_logprobs
from retrain.view.fields import Fields, mapping, whole
from retrain.view.scan import SamplesName
from retrain.view.summary import NOTES


def trainer_logprobs(
    folder: Path, name: SamplesName, rows: Sequence[Fields]
) -> list[Sequence[Any] | None]:
    """[rows][R] the trainer's logprobs of each row's response; None where they are not known.

    A row of them that is damaged, as a killed process leaves one, counts as not known: the episode
    itself is whole.
    """
    if name.split != "train":
        return [None] * len(rows)
    return [_of_row(folder, name.iteration, row) for row in rows]


def _of_row(folder: Path, iteration: int, row: Fields) -> Sequence[Any] | None:
    index = whole(row, "index")
    segment = whole(mapping(mapping(row, "metadata"), NOTES), "segment") or 0
    if index is None:
        return None
    try:
        return read_trainer_logprobs(folder, iteration, index, segment)
    except DataError:
        return None
