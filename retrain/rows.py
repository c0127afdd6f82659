"""Tasks and messages as plain rows and chat dictionaries, for functions written for TRL."""

from __future__ import annotations

import copy
from typing import Any

from retrain.types import Message, Task

Row = dict[str, Any]


def task_row(task: Task) -> Row:
    """A task as the row of a data set.

    Returns:
        Everything in the task's metadata under its own name; `prompt`, as text or as chat
        dictionaries; `id`, and `label` where the task has one, unless the metadata has a column of
        that name. A copy: whoever gets it may change it.
    """
    row = copy.deepcopy(dict(task.metadata))
    prompt = task.prompt if isinstance(task.prompt, str) else [*map(chat_dict, task.prompt)]
    given = {"prompt": prompt, "id": task.id}
    if task.label is not None:
        given["label"] = copy.deepcopy(task.label)
    return {**given, **row, "prompt": prompt}


def chat_dict(message: Message) -> Row:
    """A message as a chat dictionary, with the keys that TRL's parsed messages have."""
    chat: Row = {"role": message.role}
    if message.name is not None:
        chat["name"] = message.name
    if message.reasoning:
        chat["reasoning_content"] = message.reasoning
    chat["content"] = message.content
    if message.tool_calls:
        chat["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": {**call.arguments}}}
            for call in message.tool_calls
        ]
    return chat
