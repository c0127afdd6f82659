"""`prompt_source.system_prompt`: one system message before every task's prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from retrain.types import Message, Task


def with_system_prompt(tasks: Iterable[Task], text: str | None) -> tuple[Task, ...]:
    """Put a system message before the prompts, and before recorded conversations.

    A prompt or a conversation that begins with a system message keeps its own. An empty prompt,
    which the environment writes itself, becomes the system message alone.

    Args:
        tasks: The tasks.
        text: The message; None leaves the tasks as they are.
    """
    return tuple(tasks) if text is None else tuple(_begun(task, text) for task in tasks)


def _begun(task: Task, text: str) -> Task:
    said = task.messages if task.prompt else ()
    if said and said[0].role == "system":
        return task
    metadata: dict[str, Any] = dict(task.metadata)
    recorded = metadata.get("messages")
    if isinstance(recorded, list) and recorded and not _is_system(recorded[0]):
        metadata["messages"] = [{"role": "system", "content": text}, *recorded]
    return replace(task, prompt=(Message("system", text), *said), metadata=metadata)


def _is_system(row: Any) -> bool:
    return isinstance(row, Mapping) and row.get("role") == "system"
