"""A digest of the tasks, small enough for every checkpoint, that still tells what has changed."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from retrain.errors import DataError
from retrain.types import Message, Task

_ID_BYTES, _REST_BYTES = 6, 3
_ROW_BYTES = _ID_BYTES + _REST_BYTES
"""Of every task: 6 bytes for its id, 3 for the rest of it; one hash is over all in full."""


def digest_tasks(tasks: Sequence[Task]) -> dict[str, Any]:
    """Digest tasks, in their order, as JSON values: 12 characters for each task.

    Ids, prompts, labels, metadata and images count.
    """
    hashes = [(_hash(task.id), _hash(_rest(task))) for task in tasks]
    whole = hashlib.blake2b(b"".join(one + other for one, other in hashes), digest_size=16)
    rows = b"".join(one[:_ID_BYTES] + other[:_REST_BYTES] for one, other in hashes)
    return {
        "count": len(tasks),
        "hash": whole.hexdigest(),
        "rows": base64.b64encode(rows).decode("ascii"),
    }


def require_same_tasks(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with other tasks than those of a checkpoint.

    Args:
        then: The digest that was saved.
        now: The digest of the tasks that there are.

    Raises:
        DataError: Saying how many appeared, vanished and changed, and what to do.
    """
    if then["hash"] == now["hash"]:
        return
    raise DataError(
        f"data state: the tasks of prompt_source have changed since the checkpoint: "
        f"{_changes(then, now)}. Which task comes next would be another one: resume with the tasks "
        "as they were, or start a new run from the trained weights (model.name_or_path)"
    )


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    before, after = _rows(then), _rows(now)
    appeared = len(after.keys() - before.keys())
    vanished = len(before.keys() - after.keys())
    changed = sum(after[key] != rest for key, rest in before.items() if key in after)
    if not (appeared or vanished or changed):
        return f"the {now['count']} tasks are the same, in another order"
    counts = f"{appeared} appeared, {vanished} vanished, {changed} changed"
    return f"of {then['count']} then and {now['count']} now, {counts}"


def _rows(digest: Mapping[str, Any]) -> dict[bytes, bytes]:
    data = base64.b64decode(digest["rows"])
    starts = range(0, len(data), _ROW_BYTES)
    return {data[at : at + _ID_BYTES]: data[at + _ID_BYTES : at + _ROW_BYTES] for at in starts}


def _rest(task: Task) -> str:
    """Everything but the id, as text that does not depend on the order of keys."""
    prompt: Any = task.prompt
    if not isinstance(prompt, str):
        prompt = [_message(message) for message in prompt]
    values = [prompt, task.label, dict(task.metadata), task.images]
    return json.dumps(values, sort_keys=True, default=_type_name)


def _message(message: Message) -> dict[str, Any]:
    """A message's fields; one without images digests as it did before messages had any."""
    return {key: value for key, value in asdict(message).items() if key != "images" or value}


def _type_name(value: object) -> str:
    """Stands for what is no JSON value: its `repr` may differ from process to process."""
    return type(value).__qualname__


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
