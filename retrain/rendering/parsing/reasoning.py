"""Reasoning at the beginning of a turn: `<think>…</think>`."""

from __future__ import annotations

from dataclasses import dataclass

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A turn cut in two.

    Attributes:
        reasoning: What stands in the block.
        rest: What follows it.
        unfinished: Whether the block never ends.
    """

    reasoning: str
    rest: str
    unfinished: bool = False


def split_reasoning(text: str) -> Reasoning:
    """Cut the reasoning off a turn.

    A block counts at the very beginning only; its opening tag may be missing, since some templates
    write it before the model's turn begins.
    """
    body = text.lstrip()
    opened = body.startswith(OPEN)
    inner = body.removeprefix(OPEN)
    before, closed, after = inner.partition(CLOSE)
    if closed and (opened or OPEN not in before):
        return Reasoning(before.strip(), after)
    if opened:
        return Reasoning(inner.strip(), "", unfinished=True)
    return Reasoning("", text)
