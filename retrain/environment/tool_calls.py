"""Runs the tool calls of one turn, and bounds what the model reads of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from retrain.types import ToolCall


async def run_calls(
    calls: Sequence[ToolCall],
    run: Callable[[ToolCall], Awaitable[str]],
    serial: Callable[[ToolCall], bool],
) -> tuple[str, ...]:
    """Run the calls of one turn together; all of them end before this does.

    Args:
        calls: In the order written.
        run: Runs one.
        serial: Whether a call waits for the serial ones before it. None of them begins after one
            that failed.

    Returns:
        The answers in the order of the calls, whichever came first.

    Raises:
        BaseException: Of the calls that failed, what the first one raised.
    """
    answers: list[str] = [""] * len(calls)

    async def answer(number: int) -> None:
        answers[number] = await run(calls[number])

    async def in_turn(numbers: Sequence[int]) -> None:
        for number in numbers:
            await answer(number)

    queued = [number for number, call in enumerate(calls) if serial(call)]
    alone = [number for number in range(len(calls)) if number not in queued]
    jobs = [in_turn(queued), *map(answer, alone)]
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
    return tuple(answers)


def cut_text(text: str, most: int | None) -> str:
    """A text without what follows its first `most` characters; a mark says what is left out."""
    if most is None or len(text) <= most:
        return text
    return f"{text[:most]}\n[cut: these are the first {most} of {len(text)} characters]"
