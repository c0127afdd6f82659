"""The words in which one key, and what a framework gets for it, is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from retrain.comparison import Cell, Row, Told
from retrain.report.terminal import one_line

_MOST_TOLD = 4
"""Arguments that are shown for one key; the others are counted."""

_LONGEST_VALUE = 44


def named(row: Row, name: str) -> str:
    """A key, with its value where somebody set it."""
    return f"{name} {value_text(row.value)}" if row.given else name


def only_one(row: Row) -> int | None:
    """Which one of the backends is told about a key; None where several are."""
    asked = [n for n, cell in enumerate(row.cells) if cell.first is not None]
    return asked[0] if len(asked) == 1 else None


def cell_text(cell: Cell, row: Row) -> str:
    """Everything that a framework gets for a key, a line each, and how it follows."""
    sent = [one for one in cell.told if one.sent]
    lines = [told_text(one) for one in sent[:_MOST_TOLD]]
    if len(sent) > _MOST_TOLD:
        lines.append(f"and {len(sent) - _MOST_TOLD} more")
    if cell.told and not sent:
        lines.append("nothing")
    if cell.note and not (sent and sent[0].value == row.value):
        lines.append(f"({cell.note})" if cell.told else cell.note)
    return "\n".join(lines)


def arguments_text(every: Sequence[Told]) -> str:
    """Everything that a framework gets for a key, in one line."""
    sent = [one for one in every if one.sent]
    rest = f", and {len(sent) - _MOST_TOLD} more" if len(sent) > _MOST_TOLD else ""
    return ", ".join(map(told_text, sent[:_MOST_TOLD])) + rest


def option_text(cell: Cell) -> str:
    """A framework's name for a key."""
    return cell.first.option if cell.first else cell.note


def default_text(cell: Cell) -> str:
    """What a framework itself would take for a key."""
    one = cell.first
    if one is None:
        return cell.note
    if one.default is None:
        return f"{one.option}: not known"
    return f"{one.option} {value_text(one.default)}" + ("" if one.overrides else " (the same)")


def told_text(one: Told) -> str:
    """An argument and its value."""
    return f"{one.option} {value_text(one.value)}"


def value_text(value: Any) -> str:
    """A value in few characters: the end of a long text, and no long mapping."""
    text = one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if len(text) <= _LONGEST_VALUE:
        return text
    return "{…}" if isinstance(value, dict) else f"…{text[-_LONGEST_VALUE:]}"
