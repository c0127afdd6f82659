"""A key and what each framework gets for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic_core import to_jsonable_python

from retrain.comparison.columns import Column
from retrain.comparison.keys import HYPERPARAMETERS, Key
from retrain.config import BRIDGE_OPTIONS, redact
from retrain.config.hyperparameters import PREFIXES
from retrain.config.row import Word
from retrain.config.vocabulary import ROWS


class Standing(StrEnum):
    """How the frameworks stand to a key."""

    SAME = "same"
    """Each gets the key's own value, under its own name."""
    OWN_TERMS = "own terms"
    """Each gets what the key means there, or only some get anything."""
    UNUSED = "unused"
    """Nothing is sent, though some framework has an option for it: it is not set, or idle here."""
    RETRAIN = "retrain"
    """No framework is told: retrain does it, the same code on every backend."""


@dataclass(frozen=True, slots=True)
class Told:
    """An argument of a framework.

    Attributes:
        option: Its name there.
        value: What it gets.
        sent: Whether it gets anything; else the option appears only with another value of the key.
        default: What the framework itself would take; None where that is nothing, or not known.
    """

    option: str
    value: Any = None
    sent: bool = True
    default: Any = None

    @property
    def overrides(self) -> bool:
        """Whether the framework itself would take something else."""
        return self.sent and self.default is not None and self.default != self.value


@dataclass(frozen=True, slots=True)
class Cell:
    """What one framework gets for a key.

    Attributes:
        told: The arguments that follow from it, the one that is the key itself first.
        note: How they follow, or why there are none.
    """

    told: tuple[Told, ...] = ()
    note: str = ""

    @property
    def first(self) -> Told | None:
        """The argument that stands for the key."""
        return self.told[0] if self.told and self.told[0].sent else None


@dataclass(frozen=True, slots=True)
class Row:
    """One key.

    Attributes:
        key: Its name, as users write it.
        value: Its value.
        given: Whether somebody set it; else it is retrain's default.
        meaning: What it means; "" where nobody says.
        cells: One for each backend.
        standing: How the frameworks stand to it.
    """

    key: str
    value: Any
    given: bool
    meaning: str
    cells: tuple[Cell, ...]
    standing: Standing


def make_row(key: Key, columns: Sequence[Column]) -> Row:
    """Put what the backends make of a key side by side."""
    cells = tuple(_cell(key, column) for column in columns)
    words = ROWS.get(key.at[-1]) if key.at[:2] == HYPERPARAMETERS else None
    return Row(
        key=key.name,
        value=_shown(key),
        given=key.given,
        meaning=words.meaning if words else BRIDGE_OPTIONS.get(key.at[-1], ""),
        cells=cells,
        standing=_standing(key, cells, columns),
    )


def _shown(key: Key) -> Any:
    """A key's value as JSON, without credentials."""
    return redact({key.at[-1]: to_jsonable_python(key.value)})[key.at[-1]]


def told(column: Column, options: Sequence[str]) -> tuple[Told, ...]:
    """Arguments of a backend, with its own defaults."""
    known = {**redact(dict(column.arguments))}
    if column.plan is not None:
        known["(program)"] = column.plan.entry
    return tuple(
        Told(option, known.get(option), option in known, column.defaults.get(option))
        for option in options
    )


def _cell(key: Key, column: Column) -> Cell:
    word = _word(key, column.backend)
    if column.plan is None:
        return Cell(note=_unasked(word))
    found = told(column, column.follows.get(key.at, ()))
    ordered = sorted(found, key=lambda one: (not one.sent, one.option != word.option))
    if ordered:
        return Cell(tuple(ordered), word.note)
    own = f"{column.backend}_{word.option}"
    if word.option in column.arguments and own in column.options:
        return Cell(told(column, (word.option,)), f"set by {own}")
    return Cell(note=_nothing(key, word, column.backend))


def _word(key: Key, backend: str) -> Word:
    row = ROWS.get(key.at[-1]) if key.at[:2] == HYPERPARAMETERS else None
    return Word() if row is None else row.word(backend)


def _unasked(word: Word) -> str:
    """What the vocabulary says where the backend itself cannot be asked."""
    return ": ".join(part for part in (word.option, word.note) if part) or "not asked"


def _nothing(key: Key, word: Word, backend: str) -> str:
    owner = next((prefix for prefix in PREFIXES if key.name.startswith(prefix)), None)
    if key.at[:2] == HYPERPARAMETERS and owner not in (None, f"{backend}_"):
        return f"an option of {str(owner).rstrip('_')}'s"
    if word.option:
        return f"{word.option} is not sent here"
    return word.note or "retrain reads it"


def _standing(key: Key, cells: Sequence[Cell], columns: Sequence[Column]) -> Standing:
    pairs = [(c, column) for c, column in zip(cells, columns, strict=True) if column.plan]
    if not any(one.sent for cell, _ in pairs for one in cell.told):
        has_option = any(cell.told or _word(key, column.backend).option for cell, column in pairs)
        return Standing.UNUSED if has_option else Standing.RETRAIN
    firsts = [cell.first for cell, _ in pairs]
    same = all(one is not None and _equal(one.value, key.value) for one in firsts)
    return Standing.SAME if same else Standing.OWN_TERMS


def _equal(one: Any, other: Any) -> bool:
    """Equality in which true is no 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
