"""Prompt sources: rows of a list or a JSONL file become tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrain.errors import ConfigError, DataError
from retrain.rollout.messages import read_messages
from retrain.types import Message, Task


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Which key of a row holds what.

    Attributes:
        id: The task's id; rows without one are named by their position.
        prompt: The prompt: text, or a list of chat messages.
        label: The expected answer.
    """

    id: str = "id"
    prompt: str = "prompt"
    label: str = "label"


def list_tasks(rows: Sequence[Any], keys: RowKeys, where: str) -> tuple[Task, ...]:
    """Turn rows (mappings, or plain prompts) into tasks.

    Args:
        rows: The rows.
        keys: Which key holds what.
        where: What the rows are, for messages ("prompt_source.source_config.items").

    Raises:
        DataError: Naming the row that cannot be used.
    """
    if not rows:
        raise DataError(f"{where}: holds no row; give at least one prompt")
    named = ((f"{where}[{number}]", row) for number, row in enumerate(rows))
    return _distinct(_task(name, row, keys, str(at)) for at, (name, row) in enumerate(named))


def jsonl_tasks(path: Path, keys: RowKeys) -> tuple[Task, ...]:
    """Read tasks from a JSONL file: one JSON object a line; empty lines are passed over.

    Raises:
        DataError: Naming the file and line that cannot be used.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; prompt_source.source_config.path must name one")
    tasks = _distinct(
        _task(where, row, keys, f"{path.stem}-{number}") for number, where, row in _rows(path)
    )
    if not tasks:
        raise DataError(f"{path}: holds no row; give at least one JSON object a line")
    return tasks


def make_tasks(kind: str, source_config: Mapping[str, Any], base_dir: Path) -> tuple[Task, ...]:
    """Make the tasks of a `prompt_source:` section.

    Args:
        kind: "list" or "jsonl".
        source_config: `items` for a list, `path` for JSONL; `id_key`, `prompt_key`, `label_key`.
        base_dir: What a relative path is relative to.

    Raises:
        ConfigError: The section is wrong.
        DataError: The rows are wrong.
    """
    options = dict(source_config)
    keys = RowKeys(
        str(options.pop("id_key", "id")),
        str(options.pop("prompt_key", "prompt")),
        str(options.pop("label_key", "label")),
    )
    needed = {"list": "items", "jsonl": "path"}.get(kind)
    if needed is None:
        raise ConfigError(
            f"prompt_source.type: {kind!r} is not there yet; known: list, jsonl. Write the rows to "
            "a JSONL file and use type: jsonl"
        )
    if needed not in options:
        raise ConfigError(f"prompt_source.source_config.{needed}: is missing; {kind} needs it")
    value = options.pop(needed)
    if options:
        raise ConfigError(
            f"prompt_source.source_config.{min(options)}: is not known; {kind} takes {needed}, "
            "id_key, prompt_key and label_key"
        )
    if kind == "jsonl":
        return jsonl_tasks(base_dir / str(value), keys)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigError("prompt_source.source_config.items: must be a list of prompts or rows")
    return list_tasks(value, keys, "prompt_source.source_config.items")


def _rows(path: Path) -> Iterator[tuple[int, str, Any]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield number, f"{path}:{number}", json.loads(line.decode("utf-8-sig"))
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}:{number}: is not UTF-8 (byte {error.start}); save the file as UTF-8"
                ) from error
            except json.JSONDecodeError as error:
                raise DataError(
                    f"{path}:{number}: is not JSON ({error.msg} at column {error.colno}); each "
                    "line must be one JSON object"
                ) from error


def _distinct(tasks: Iterable[Task]) -> tuple[Task, ...]:
    seen: dict[str, Task] = {}
    for task in tasks:
        if task.id in seen:
            raise DataError(
                f"task id {task.id!r} stands twice in the prompt source; ids must be distinct, "
                "since seeds and resume go by them"
            )
        seen[task.id] = task
    return tuple(seen.values())


def _task(where: str, row: Any, keys: RowKeys, default_id: str) -> Task:
    if isinstance(row, str):
        return Task(default_id, row)
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: expected an object with {keys.prompt!r}, got {row!r:.80}")
    metadata = {key: value for key, value in row.items() if key not in _names(keys)}
    return Task(
        id=default_id if row.get(keys.id) is None else str(row[keys.id]),
        prompt=_prompt(where, row, keys, metadata),
        label=row.get(keys.label),
        metadata=metadata,
    )


def _names(keys: RowKeys) -> set[str]:
    """The keys that are no metadata; an id or label of another name also stays a column."""
    return {keys.prompt} | ({keys.id, keys.label} & {"id", "label"})


def _prompt(
    where: str, row: Mapping[str, Any], keys: RowKeys, metadata: dict[str, Any]
) -> str | tuple[Message, ...]:
    if keys.prompt in row:
        prompt = row[keys.prompt]
        if isinstance(prompt, str):
            return prompt
        return read_messages(f"{where}: {keys.prompt!r}", prompt)
    if "messages" not in row:
        raise DataError(
            f"{where}: has no {keys.prompt!r} (keys: {', '.join(map(str, row)) or 'none'}); add "
            "it, or name its key with prompt_source.source_config.prompt_key"
        )
    messages = read_messages(f"{where}: 'messages'", metadata["messages"])
    first = next((i for i, m in enumerate(messages) if m.role == "assistant"), len(messages))
    if first == 0:
        raise DataError(f"{where}: 'messages' must begin with a prompt, not with the assistant")
    return messages[:first]
