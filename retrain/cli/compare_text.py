"""A comparison of backends for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from retrain.cli.compare_words import (
    arguments_text,
    cell_text,
    default_text,
    named,
    only_one,
    option_text,
    told_text,
    value_text,
)
from retrain.cli.sizes import explained_sizes
from retrain.comparison import Column, Comparison, Row, Standing
from retrain.comparison.rows import told
from retrain.config import ROWS
from retrain.config.hyperparameters import PREFIXES
from retrain.report.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console

_LEGEND = "Found by planning: an argument stands beside the keys that change it."


def print_comparison(found: Comparison, console: Console) -> None:
    """Print one training: what is refused, sizes, what differs, and what is the same."""
    names = [column.backend for column in found.columns]
    stage = f", stage {found.stage}" if found.stage else ""
    _line(f"== {found.config.experiment_name}{stage}: {', '.join(names)} ==", console, bold=True)
    _pairs("what each cannot honour, and warnings", _problems(found.columns), console)
    if not any(column.plan for column in found.columns):
        return
    _print_sizes(found.columns, console)
    _print_rows(found, console)
    _print_overridden(found, console)
    title = "fixed by retrain where the framework would do otherwise"
    _pairs(title, _fixed(found.columns), console)
    _print_lists(found, console)


def _problems(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    for column in columns:
        if column.absent:
            yield (
                column.backend,
                f"cannot be asked, its words are the documentation's: {column.absent}",
            )
        elif column.plan is None:
            yield column.backend, f"refused: {column.refused}"
        elif not column.plan.problems:
            yield column.backend, "none"
        else:
            yield from ((column.backend, f"{p.severity}: {p}") for p in column.plan.problems)


def _print_sizes(columns: Sequence[Column], console: Console) -> None:
    sizes = [explained_sizes(column.plan) if column.plan else {} for column in columns]
    names = dict.fromkeys(name for side in sizes for name in side)
    rows = [[name.replace("_", " "), *(side.get(name, "") for side in sizes)] for name in names]
    _table("sizes", ["", *(column.backend for column in columns)], rows, console)


def _print_rows(found: Comparison, console: Console) -> None:
    names = [column.backend for column in found.columns]
    own = found.standing(Standing.OWN_TERMS)
    lone = [row for row in own if row.key not in ROWS and only_one(row) is not None]
    rows = [
        [row.key, value_text(row.value), *(cell_text(cell, row) for cell in row.cells)]
        for row in sorted(own, key=_rank)
        if row not in lone
    ]
    _line(_LEGEND, console)
    console.print()
    _table("told to each in its own terms", ["key", "value", *names], rows, console)
    same = [
        [row.key, value_text(row.value), *(option_text(cell) for cell in row.cells)]
        for row in found.standing(Standing.SAME)
    ]
    _table("the same value under each one's name", ["key", "value", *names], same, console)
    only = [
        [row.key, value_text(row.value), names[at], arguments_text(row.cells[at].told)]
        for row in lone
        if (at := only_one(row)) is not None
    ]
    _table("told to one of them only", ["key", "value", "to", "as"], only, console)


def _print_overridden(found: Comparison, console: Console) -> None:
    """Where leaving a key to the frameworks would make another algorithm of the same file."""
    names = [f"{column.backend} by itself" for column in found.columns]
    rows = [
        [row.key, value_text(row.value), *(default_text(cell) for cell in row.cells)]
        for row in found.overridden
    ]
    title = "retrain's defaults that a framework does not share: they are sent"
    _table(title, ["key", "sent", *names], rows, console)


def _fixed(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    for column in columns:
        fixed = [one for one in told(column, column.fixed) if one.overrides]
        if fixed:
            shown = (f"{told_text(one)} (else {value_text(one.default)})" for one in fixed)
            yield column.backend, ", ".join(shown)


def _print_lists(found: Comparison, console: Console) -> None:
    unused = (named(row, row.key) for row in found.standing(Standing.UNUSED))
    _pairs("not set, or without effect here", [("", ", ".join(unused))], console)
    title = "done by retrain itself, the same on every backend"
    _pairs(title, _by_section(found.standing(Standing.RETRAIN)), console)


def _by_section(rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
    sections: dict[str, list[str]] = {}
    for row in rows:
        section, dot, rest = row.key.partition(".")
        if not dot:
            hyper = row.key in ROWS or row.key.startswith(PREFIXES)
            section, rest = "hyperparameters" if hyper else "run", row.key
        sections.setdefault(section, []).append(named(row, rest))
    return ((section, ", ".join(keys)) for section, keys in sections.items())


def _rank(row: Row) -> int:
    """The algorithm first, its hyperparameters next."""
    return 0 if row.key == "algorithm.name" else 1 if row.key in ROWS else 2


def _table(
    title: str, names: Sequence[str], rows: Sequence[Sequence[str]], console: Console
) -> None:
    """Print rows under a title; nothing where there are none."""
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    _line(f"-- {title} --", console, bold=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(names):
        table.add_column(name, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    console.print()


def _pairs(title: str, pairs: Iterable[tuple[str, str]], console: Console) -> None:
    """Print labelled texts under a title, wrapped beside their labels."""
    from rich.table import Table
    from rich.text import Text

    _line(f"-- {title} --", console, bold=True)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for label, text in pairs:
        shown = [Text(one_line(label)), Text("\n".join(map(one_line, text.split("\n"))))]
        grid.add_row(*(shown if label else shown[1:]))
    console.print(grid)
    console.print()


def _line(text: str, console: Console, *, bold: bool = False) -> None:
    style = "bold" if bold else None
    console.print(one_line(text), style=style, markup=False, highlight=False, emoji=False)
