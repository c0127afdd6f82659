"""`trainer_logprobs/ITERATION.jsonl`: what the trainer's weights say of the tokens of an iteration.

One row per sample that was trained on: `index` and `segment` name it, `logprobs` are the trainer's,
in nats, of the tokens of its response, before the first update with them; null where the token is
not trained on. The difference to the engine's is what the two compute differently.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrain.errors import DataError, RunFolderError
from retrain.report.jsonl import ends_torn

TRAINER_LOGPROBS = "trainer_logprobs"
"""The folder's name in a run folder."""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class TrainerRow:
    """What the trainer says of one sample.

    Attributes:
        index: The sample's `index`.
        segment: Which segment of its episode it is, from 0.
        logprobs: [R] the trainer's logprobs of its response; None where it is not trained on.
    """

    index: int
    segment: int
    logprobs: Sequence[float | None]


def write_trainer_logprobs(run_dir: Path, iteration: int, rows: Iterable[TrainerRow]) -> None:
    """Append rows; several processes may append to one file.

    Args:
        run_dir: The run folder.
        iteration: The iteration that trains on them.
        rows: The samples' rows.

    Raises:
        RunFolderError: They cannot be written.
    """
    path = run_dir / TRAINER_LOGPROBS / f"{iteration}.jsonl"
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            parted = b"\n" if ends_torn(path) else b""  # a killed run may have left half a row
            file.write(parted + b"".join(map(_encoded, rows)))
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_trainer_logprobs(
    run_dir: Path, iteration: int, index: int, segment: int
) -> list[float | None] | None:
    """Read one sample's row: the last one, where a resume trained on it again.

    Returns:
        [R] the logprobs; None where there are none.

    Raises:
        DataError: The row is damaged.
    """
    path = run_dir / TRAINER_LOGPROBS / f"{iteration}.jsonl"
    key, found = _key(index, segment), b""
    try:
        with path.open("rb") as file:
            for raw in file:
                if raw.startswith(key) and raw.endswith(b"\n"):
                    found = raw
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not found:
        return None
    try:
        values: list[float | None] = json.loads(found)["logprobs"]
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: the row of sample {index} is damaged ({error})") from error
    return values


def _encoded(row: TrainerRow) -> bytes:
    values = json.dumps([_rounded(value) for value in row.logprobs], allow_nan=False)
    return _key(row.index, row.segment) + f"{values}}}\n".encode()


def _key(index: int, segment: int) -> bytes:
    """How a row begins, so that it is found without parsing the others."""
    return f'{{"index": {index}, "segment": {segment}, "logprobs": '.encode()


def _rounded(value: float | None) -> float | None:
    return round(value, _DIGITS) if value is not None and math.isfinite(value) else None
