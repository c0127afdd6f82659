"""Rows of data become tasks, whatever they were read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrain.errors import DataError
from retrain.images import read_images
from retrain.rollout.messages import read_messages
from retrain.types import Message, Task

SECTION = "prompt_source.source_config"
"""Where the settings of a prompt source stand, for messages."""


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Which key of a row holds what.

    Attributes:
        id: The task's id; rows without one are named by their position.
        prompt: The prompt: text, or a list of chat messages.
        label: The expected answer.
        images: The prompt's images: paths, `data:` URIs or URLs, or one of it.
    """

    id: str = "id"
    prompt: str = "prompt"
    label: str = "label"
    images: str = "images"

    @property
    def no_metadata(self) -> set[str]:
        """The keys that are no metadata; an id or label of another name also stays a column."""
        return {self.prompt, self.images} | ({self.id, self.label} & {"id", "label"})


def row_task(
    where: str, row: Any, keys: RowKeys, default_id: str, base: Path | None = None
) -> Task:
    """Turn a row into a task.

    Args:
        where: What the row is, for messages ("tasks.jsonl:3").
        row: A mapping, or a plain prompt.
        keys: Which key holds what.
        default_id: The id of a row without one.
        base: What the paths of images are relative to; None leaves them.

    Raises:
        DataError: Naming what cannot be used; an image file that is not there is.
    """
    if isinstance(row, str):
        return Task(default_id, row)
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: expected an object with {keys.prompt!r}, got {row!r:.80}")
    metadata = {key: value for key, value in row.items() if key not in keys.no_metadata}
    return Task(
        id=default_id if row.get(keys.id) is None else str(row[keys.id]),
        prompt=_prompt(where, row, keys, metadata),
        label=row.get(keys.label),
        metadata=metadata,
        images=_images(f"{where}: {keys.images!r}", row.get(keys.images), base),
    )


def distinct(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks, where no two have the same id.

    Raises:
        DataError: Naming an id that stands twice.
    """
    seen: dict[str, Task] = {}
    for task in tasks:
        if task.id in seen:
            raise DataError(
                f"task id {task.id!r} stands twice in the prompt source; ids must be distinct, "
                "since seeds and resume go by them"
            )
        seen[task.id] = task
    return tuple(seen.values())


def _images(where: str, value: Any, base: Path | None) -> tuple[str, ...]:
    try:
        images = read_images(value, base)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error
    for image in images:
        if not image.is_url and not Path(image.source).is_file():
            raise DataError(f"{where}: {image.source}: no such image file")
    return tuple(image.source for image in images)


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
            f"it, or name its key with {SECTION}.prompt_key"
        )
    messages = read_messages(f"{where}: 'messages'", metadata["messages"])
    first = next((i for i, m in enumerate(messages) if m.role == "assistant"), len(messages))
    if first == 0:
        raise DataError(f"{where}: 'messages' must begin with a prompt, not with the assistant")
    return messages[:first]
