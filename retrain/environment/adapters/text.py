"""Observations of other libraries as messages, and seeds that they all take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from retrain.errors import EnvironmentFailure, nearest
from retrain.types import Message, Observation, Task


def small_seed(seed: int) -> int:
    """A seed in [0, 2**31), which NumPy's old generators and servers in other languages take."""
    return seed % 2**31


def observation_text(value: Any, entry: str | None, *, without: Iterable[str] = ()) -> str:
    """An observation as the text that the model reads.

    Args:
        value: Text is kept. Of a dictionary each entry becomes a line `name: value`, or the only
            one its value; what is no text there is written as JSON. All else becomes `str(value)`.
        entry: Which entry of a dictionary is the text; None for all.
        without: Entries that are not shown.

    Raises:
        EnvironmentFailure: There is no observation, or no such entry.
    """
    if value is None:
        raise EnvironmentFailure("the environment gave no observation, and the episode goes on")
    if not isinstance(value, Mapping):
        if entry is not None:
            raise EnvironmentFailure(
                f"the observation is no dictionary with {entry!r}, but {type(value).__name__} "
                f"{value!r:.60}; leave out env_specific_config.observation"
            )
        return str(value)
    if entry is not None:
        if entry not in value:
            known = nearest(entry, map(str, value))
            raise EnvironmentFailure(f"the observation has no entry {entry!r}; {known}")
        return _written(value[entry])
    hidden = set(without)
    shown = {name: _written(item) for name, item in value.items() if name not in hidden}
    if len(shown) == 1:
        return next(iter(shown.values()))
    return "\n".join(f"{name}: {text}" for name, text in shown.items())


def first_prompt(task: Task, text: str, system_prompt: str | None = None) -> Observation:
    """The prompt of an environment that writes it itself.

    What the task says comes first; where its last message is the user's, `text` follows in it.

    Args:
        task: Its prompt may be empty.
        text: The first observation.
        system_prompt: A system message, unless the task begins with one.
    """
    begun = [m for m in task.messages if m.content or m.images or m.role != "user"]
    said = list(with_system_prompt(begun, system_prompt))
    if said and said[-1].role == "user":
        last = said.pop()
        return Observation((*said, replace(last, content=f"{last.content}\n\n{text}")))
    return Observation((*said, Message("user", text)))


def with_system_prompt(messages: Sequence[Message], text: str | None) -> tuple[Message, ...]:
    """The messages after a system message with the text, unless they begin with one."""
    if text is None or (messages and messages[0].role == "system"):
        return tuple(messages)
    return (Message("system", text), *messages)


def reply(text: str) -> Observation:
    """A reply as one user message."""
    return Observation((Message("user", text),))


def numbered_tasks(count: int) -> list[Task]:
    """Tasks that differ in their ids, and so in the seeds of their episodes.

    Args:
        count: How many.
    """
    return [Task(f"episode-{number}", "") for number in range(count)]


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
