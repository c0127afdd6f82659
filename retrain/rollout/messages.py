"""Chat messages in rows of data, as the OpenAI and Hugging Face formats write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrain.environment.messages import as_message
from retrain.errors import DataError
from retrain.types import Message


def read_messages(where: str, rows: Any) -> tuple[Message, ...]:
    """Read a list of chat messages.

    Args:
        where: What is read, for messages ("tasks.jsonl:3: 'prompt'").
        rows: The list.

    Raises:
        DataError: Naming `where` and the message that cannot be used.
    """
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise DataError(f"{where}: expected text or a list of messages, got {rows!r:.80}")
    return tuple(_read(f"{where}[{number}]", row) for number, row in enumerate(rows))


def _read(where: str, row: Any) -> Message:
    try:
        return as_message(row)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error
