"""`samples/ITERATION.jsonl`: one row per sample, readable by people and back into `Sample`.

A row holds every field of the sample, after a few that make it readable by itself: `task_id`,
`visit`, `seed`, `segment` (which of its episode's `segments` it is, from 1; only the first one has
the facts that follow), `stop_reason`, raw `rewards` by component (and, where they are normalised,
`rewards_normalised` and the combined `reward_trained`), `error`, and `turns` (the text of the
prompt and of every turn, the model's and the environment's apart, with `pieces`: how many
characters of it each token wrote).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from retrain.errors import DataError, RunFolderError
from retrain.report.atomic import replacing
from retrain.report.jsonl import Line, read_lines
from retrain.report.pieces import Decode, Pieces
from retrain.report.sample_notes import SampleNotes
from retrain.sample import Sample


def write_samples(path: Path, samples: Iterable[Sample], *, decode: Decode | None = None) -> int:
    """Write the samples of an iteration, in place of what the file held before.

    They are taken one at a time, and the file appears when the last one is written.

    Args:
        path: The file; its folder must exist.
        samples: The samples. Numbers that are not finite are written as null.
        decode: Gives the text of ids, for the text by turn; None leaves the text out.

    Returns:
        How many were written.

    Raises:
        DataError: A sample holds something that JSON cannot (in its label or metadata).
        RunFolderError: The file cannot be written.
    """
    count = 0
    decoder = _Decoder(decode) if decode else None
    try:
        with replacing(path) as file:
            for sample in samples:
                file.write(_encode(sample, decoder))
                count += 1
    except OSError as error:
        if isinstance(error, RunFolderError):
            raise
        raise RunFolderError(f"{path}: cannot be written: {error.strerror or error}") from error
    return count


def read_samples(path: Path) -> Iterator[Sample]:
    """Read a samples file, one sample at a time; a torn last line is left out.

    Args:
        path: The file.

    Yields:
        The samples, in the order written.

    Raises:
        DataError: The file is missing, or a line is not a sample (file and line named).
    """
    try:
        for line in read_lines(path):
            if not line.torn:
                yield _decode(path, line)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


@cache
def _adapter() -> TypeAdapter[Sample]:
    return TypeAdapter(Sample)


def _encode(sample: Sample, decoder: _Decoder | None) -> bytes:
    try:
        head = json.dumps(_head(sample, decoder), ensure_ascii=False).encode()
        fields = _adapter().dump_json(sample)
    except (PydanticSerializationError, UnicodeEncodeError, TypeError) as error:
        raise DataError(
            f"sample {sample.index} of group {sample.group_index} cannot be written as JSON: "
            f"{error}; labels and metadata must hold JSON values"
        ) from error
    return head[:-1] + b"," + fields[1:] + b"\n"


def _head(sample: Sample, decoder: _Decoder | None) -> dict[str, Any]:
    notes = SampleNotes.of(sample)
    return {
        "task_id": notes.task_id,
        "visit": notes.seed.get("visit"),
        "seed": dict(notes.seed) or None,
        "segment": notes.segment,
        "segments": notes.segments,
        "stop_reason": notes.stop_reason,
        "rewards": {k: v if math.isfinite(v) else None for k, v in notes.rewards.items()},
        **_trained(notes),
        "error": notes.error,
        "turns": decoder.turns(sample, notes) if decoder else [],
    }


def _trained(notes: SampleNotes) -> dict[str, Any]:
    """What is trained on in place of raw rewards, where that is something else."""
    if notes.trained is None and not notes.normalised:
        return {}
    return {"rewards_normalised": dict(notes.normalised), "reward_trained": notes.trained}


class _Decoder:
    """Gives the texts of samples, turn by turn."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._pieces = Pieces(decode)

    def turns(self, sample: Sample, notes: SampleNotes) -> list[dict[str, Any]]:
        turns = [self._turn("prompt", sample.prompt_ids)]
        response, at = sample.response_ids, 0
        for span in notes.turns:
            middle, end = at + span.sampled, at + span.sampled + span.replied
            turns.append(self._turn("model", response[at:middle]))
            if end > middle:
                turns.append(self._turn("environment", response[middle:end]))
            at = end
        return turns

    def _turn(self, who: str, ids: Sequence[int]) -> dict[str, Any]:
        text = self._decode(ids)
        return {"from": who, "text": text, "pieces": self._pieces.lengths(ids, text)}


def _decode(path: Path, line: Line) -> Sample:
    row = dict(line.value or {})
    for name in ("rollout_log_probs", "advantage"):
        if name in row:
            row[name] = _with_nan(row[name])
    try:
        return _adapter().validate_python(row)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{path}, line {line.number}: {where}: {first['msg']}") from error


def _with_nan(value: Any) -> Any:
    """Put NaN back where null stands for a number that was not finite."""
    if isinstance(value, list):
        return [math.nan if item is None else item for item in value]
    return math.nan if value is None else value
