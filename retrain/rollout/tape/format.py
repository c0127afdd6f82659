"""The tape's format: what one recording of episodes holds, and how it is written down.

A tape is a ZIP file, so that any tool can list it and any part can be read without the rest:

- `header.json`: the format's version, when and by what it was recorded, the configuration without
  its credentials, and the versions of the packages that matter.
- `groups/000000.json`, `groups/000001.json`, …: one group each, in the order in which they were
  finished: the group (tasks, seeds, token streams, actions, rewards by component, advantages,
  timings, failures) and every answer that the engine gave in it, under the seed of its turn.

Numbers are JSON's; Python writes the shortest text that reads back as the same float, so logprobs
and rewards come back bit for bit, and NaN is written as `NaN`. What the model was asked is not kept
twice: `asked` is how many tokens the stream had, and the streams stand in the group.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from retrain.config.redact import redact
from retrain.engine.base import Generation
from retrain.errors import DataError
from retrain.types import Group

T = TypeVar("T")

VERSION = 1
"""Raised when a reader of the former version could not read what is written."""

HEADER = "header.json"


@dataclass(frozen=True, slots=True)
class TapeHeader:
    """What a tape says about itself.

    Attributes:
        config: The configuration that it was recorded with, without credentials.
        created: When, as ISO 8601 with a time zone.
        versions: Package to version, Python's and retrain's own among them.
        engine: What wrote the turns.
        version: The format's version.
    """

    config: Mapping[str, Any]
    created: str
    versions: Mapping[str, str]
    engine: str
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class TapeAnswer:
    """What the engine answered to one turn.

    Attributes:
        asked: Tokens of the stream that it was asked to go on from.
        generation: The answer; None where it failed for good.
        failure: Why it failed; "" where it did not.
    """

    asked: int
    generation: Generation | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class TapeGroup:
    """One group and the answers that it was played from.

    Attributes:
        group: The group as it was recorded.
        answers: By the seed of the turn (`EpisodeSeed.turn`), those of abandoned attempts included.
    """

    group: Group
    answers: Mapping[int, TapeAnswer] = field(default_factory=dict)


_HEADER = TypeAdapter(TapeHeader)
_GROUP = TypeAdapter(TapeGroup)
_WITNESSES = {"group": {"trajectories": {"__all__": {"witness"}}}}


def group_name(position: int) -> str:
    """The name of a group's entry."""
    return f"groups/{position:06d}.json"


def write_header(header: TapeHeader) -> bytes:
    """A header as JSON, its credentials redacted."""
    content = _HEADER.dump_python(header, mode="json")
    return json.dumps({**content, "config": redact(content["config"])}, indent=2).encode()


def write_group(recorded: TapeGroup) -> bytes:
    """A group as JSON; credentials in the infos of its turns are redacted.

    Raises:
        DataError: A task, an action or an info holds what JSON cannot.
    """
    try:
        content = _GROUP.dump_python(recorded, mode="json", exclude=_WITNESSES)
        for trajectory in content["group"]["trajectories"]:
            for turn in (turn for segment in trajectory["segments"] for turn in segment["turns"]):
                turn["info"] = redact(turn["info"])
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        task = recorded.group.task.id
        raise DataError(
            f"task {task!r}: cannot be recorded: {error}; labels, metadata and infos must hold "
            "JSON values"
        ) from error


def read_header(data: bytes, where: str) -> TapeHeader:
    """Read a header.

    Args:
        data: Its bytes.
        where: The tape, for messages.

    Raises:
        DataError: It is none, or of a version that this retrain cannot read.
    """
    content = _parse(data, where)
    version = content.get("version")
    if version != VERSION:
        raise DataError(
            f"{where}: is a tape of version {version!r}; this retrain reads version {VERSION}"
            " (record it again, or play it with the retrain that its header names)"
        )
    return _validated(_HEADER, content, where)


def read_group(data: bytes, where: str) -> TapeGroup:
    """Read a group.

    Args:
        data: Its bytes.
        where: The tape and the entry, for messages.

    Raises:
        DataError: It is none.
    """
    return _validated(_GROUP, _parse(data, where), where)


def _parse(data: bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError as error:
        raise DataError(f"{where}: is not JSON ({error}); the tape is damaged") from error
    if not isinstance(content, dict):
        raise DataError(f"{where}: expected a JSON object, got {content!r:.80}")
    return content


def _validated(adapter: TypeAdapter[T], content: dict[str, Any], where: str) -> T:
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{where}: {at}: {first['msg']}; the tape is damaged") from error
