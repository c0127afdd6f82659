"""Scores that a judge gave before: in memory, and in a file that outlives the run."""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from retrain.errors import ConfigError, DataError

MOST_ENTRIES = 1_000_000
"""Most scores in memory; the ones that were not asked for the longest are forgotten first."""

_SHOWN = 300


class ScoreCache:
    """Scores by the hash of everything that they depend on; safe to use from any thread.

    The file has one JSON object a line: `key`, `score`, and the judge's reply for people. Lines are
    appended whole, so several processes may share it; each reads it once, at its start. A line that
    a crash cut short is passed over.

    Args:
        path: The file; None keeps scores in memory only.

    Raises:
        ConfigError: The file cannot be read or written.
        DataError: It is something else.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._scores: OrderedDict[bytes, float] = OrderedDict()
        self._torn = False
        if path is not None:
            self._load(path)

    def __len__(self) -> int:
        return len(self._scores)

    def get(self, key: bytes) -> float | None:
        """The score of a key; None where it is not known."""
        with self._lock:
            if key in self._scores:
                self._scores.move_to_end(key)
            return self._scores.get(key)

    def put(self, key: bytes, score: float, reply: str) -> None:
        """Keep a score.

        Args:
            key: From `key_of`.
            score: The score.
            reply: What the judge wrote.

        Raises:
            OSError: The file cannot be written; the score is in memory all the same.
        """
        with self._lock:
            self._remember(key, score)
            if self._path is not None:
                self._append(self._path, key, score, reply)

    def _remember(self, key: bytes, score: float) -> None:
        self._scores[key] = score
        if len(self._scores) > MOST_ENTRIES:
            self._scores.popitem(last=False)

    def _append(self, path: Path, key: bytes, score: float, reply: str) -> None:
        row = {"key": key.hex(), "score": score, "reply": reply[-_SHOWN:]}
        line = ("\n" if self._torn else "") + json.dumps(row) + "\n"
        file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.write(file, line.encode("ascii"))
        finally:
            os.close(file)
        self._torn = False

    def _load(self, path: Path) -> None:
        lines = 0
        try:
            with path.open("a+b") as file:
                file.seek(0)
                for line in file:
                    lines += 1
                    self._torn = not line.endswith(b"\n")
                    self._read(line)
        except OSError as error:
            raise ConfigError(f"llm_judge: cache_file: {path}: {error.strerror}") from error
        if lines > 1 and not self._scores:
            raise DataError(f"llm_judge: cache_file: {path} holds no scores of a judge")

    def _read(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            key, score = bytes.fromhex(row["key"]), float(row["score"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        if math.isfinite(score):
            self._remember(key, score)


def key_of(*parts: Any) -> bytes:
    """The hash of JSON values."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).digest()
