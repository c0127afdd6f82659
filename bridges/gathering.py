"""`gather`: episodes and groups side by side, none of which outlives a failure of another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from retrain.errors import RetrainError

T = TypeVar("T")


async def gather(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all at the same time; unlike `asyncio.gather`, a failure leaves nothing running.

    Args:
        calls: What to run.

    Returns:
        Their results, in order.

    Raises:
        RetrainError: The first one that a call raised, bare; the others are cancelled, and have
            ended.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except* RetrainError as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


def _first(errors: BaseExceptionGroup[RetrainError]) -> RetrainError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
