"""State files: whole or absent, and refused in plain words where they do not fit.

A state file is one JSON object. Its last key, `content`, is what a resume needs; the keys before it
say what the file is, which version wrote it, what the run was like (`shape`), and how long the
content is and what it hashes to. So a file that is cut short, damaged, edited, of another run or of
a newer retrain is told apart from one that can be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retrain.errors import ConfigError, DataError
from retrain.report.atomic import replace_bytes

VERSION = 1
"""The version of the form that `write_state` writes."""

_KIND = "retrain_state"
_CONTENT = b', "content": '
_END = b"}\n"


@dataclass(frozen=True, slots=True)
class State:
    """What a state file holds.

    Attributes:
        content: What a resume needs.
        shape: What of the run must be the same over a resume, by name.
    """

    content: Mapping[str, Any]
    shape: Mapping[str, Any] = field(default_factory=dict)


def write_state(path: Path, kind: str, state: State) -> None:
    """Put a state in the place of `path`, or leave `path` as it is.

    Args:
        path: The file; its folder is made.
        kind: What it holds ("trl checkpoint"); `read_state` must name the same.
        state: JSON values.

    Raises:
        OSError: The folder cannot be written.
        TypeError: The state holds something that is no JSON value.
    """
    content = json.dumps(dict(state.content)).encode()
    head = {
        _KIND: kind,
        "version": VERSION,
        "shape": dict(state.shape),
        "bytes": len(content),
        "checksum": _hash(content),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_bytes(path, json.dumps(head).encode()[:-1] + _CONTENT + content + _END)


def read_state(path: Path, kind: str, remedy: str) -> State:
    """Read what `write_state` wrote.

    Args:
        path: The file.
        kind: What it must hold.
        remedy: What the user can do where it cannot be read, to end the message with.

    Raises:
        DataError: It is missing, cut short, damaged, no state of that kind, or of a newer version.
    """
    try:
        data = path.read_bytes()
        document = json.loads(data)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    except ValueError as error:
        raise DataError(f"{path}: is cut short or damaged ({error}); {remedy}") from error
    if not isinstance(document, dict) or document.get(_KIND) != kind:
        found = document.get(_KIND) if isinstance(document, dict) else None
        what = f"it holds a {found}" if found else "it is no state file, or of an older retrain"
        raise DataError(f"{path}: expected a {kind}, but {what}; {remedy}")
    version = document.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise DataError(
            f"{path}: was written by a newer retrain (state version {version}; this one reads up "
            f"to {VERSION}); update with: pip install -U retrain"
        )
    _require_whole(path, data, document, remedy)
    return State(document["content"], document["shape"])


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two shapes, a line for each name; what only one of them has does not."""
    return [
        f"{name}: {then[name]!r} then, {now[name]!r} now"
        for name in now
        if name in then and then[name] != now[name]
    ]


def require_same_shape(where: object, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on where the run has become another one.

    Args:
        where: What was saved, for the message: a file or a run folder.
        then: The shape that was saved.
        now: The shape of the run that is to go on.

    Raises:
        ConfigError: Naming every key that differs, with both values.
    """
    if lines := differences(then, now):
        raise ConfigError(
            f"{where}: was saved by a run of another shape; resume with the same settings, or "
            "start a new run\n" + "\n".join(f"  {line}" for line in lines)
        )


def _require_whole(path: Path, data: bytes, document: Mapping[str, Any], remedy: str) -> None:
    length = document.get("bytes")
    content = data[-len(_END) - length : -len(_END)] if isinstance(length, int) else b""
    whole = isinstance(document.get("shape"), dict)
    if not whole or _hash(content) != document.get("checksum"):
        raise DataError(
            f"{path}: is damaged, or was edited: it is not what was written (the checksum differs, "
            f"or a part is missing); {remedy}"
        )


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
