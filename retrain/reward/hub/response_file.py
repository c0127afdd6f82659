"""Reads a file of responses: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retrain.errors import DataError
from retrain.reward.hub.cases import Case, shown


def read_cases(path: Path) -> list[Case]:
    """The cases of a file, in order.

    A line is an object with `response` (text or null) and, where the rule needs them, `label`,
    `metadata` (an object), `tokens` (how many the response has) and `prompt` (text or messages).
    Other keys are for people. Empty lines do not count.

    Args:
        path: The file, UTF-8.

    Raises:
        DataError: The file cannot be read, holds no response, or a line is wrong; the message names
            the line.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            cases = list(_cases(path, lines))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; give a JSONL file of responses") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text at byte {error.start}") from error
    if not cases:
        raise DataError(f"{path}: no responses; expected one JSON object a line")
    return cases


def _cases(path: Path, lines: Iterator[str]) -> Iterator[Case]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _case(_object(line, f"{path}, line {number}"), f"{path}, line {number}")


def _object(line: str, at: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{at}: not JSON: {error}") from None
    if not isinstance(row, dict):
        raise DataError(f"{at}: expected an object with a response, got {shown(row)}")
    if "response" not in row:
        raise DataError(f"{at}: no response; the keys are {', '.join(row) or 'none'}")
    return row


def _case(row: Mapping[str, Any], at: str) -> Case:
    response, metadata, tokens = row["response"], row.get("metadata"), row.get("tokens")
    if not isinstance(response, str | None):
        raise DataError(f"{at}: response is {shown(response)}, expected text or null")
    if not isinstance(metadata, dict | None):
        raise DataError(f"{at}: metadata is {shown(metadata)}, expected an object")
    if not isinstance(tokens, int | None) or isinstance(tokens, bool):
        raise DataError(f"{at}: tokens is {shown(tokens)}, expected a whole number")
    return Case(response, row.get("label"), metadata or {}, tokens, row.get("prompt"))
