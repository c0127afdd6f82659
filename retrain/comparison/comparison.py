"""Every backend's side of one training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retrain.comparison.columns import Column, make_column
from retrain.comparison.keys import keys_of
from retrain.comparison.rows import Row, Standing, make_row
from retrain.config import ROWS, RunConfig


@dataclass(frozen=True, slots=True)
class Comparison:
    """One training on several backends.

    Attributes:
        stage: The stage's name; "" for a run without stages.
        config: Its configuration, resolved for the backend that it names.
        columns: The backends.
        rows: Every key, in the order of the documentation.
    """

    stage: str
    config: RunConfig
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def standing(self, standing: Standing) -> tuple[Row, ...]:
        """The keys to which the frameworks stand in one way."""
        return tuple(row for row in self.rows if row.standing is standing)

    @property
    def overridden(self) -> tuple[Row, ...]:
        """Keys that nobody set and for which a framework itself would take something else."""
        return tuple(
            row
            for row in self.rows
            if row.key in ROWS
            and not row.given
            and any(c.first is not None and c.first.overrides for c in row.cells)
        )


def compare(config: RunConfig, backends: Sequence[str], stage: str = "") -> Comparison:
    """Ask backends what they make of one training; nothing is trained or written.

    Args:
        config: The training's configuration.
        backends: Their names.
        stage: The stage's name.

    Raises:
        ConfigError: There is no backend of a name.
    """
    keys = list(keys_of(config, tuple(backends)))
    columns = tuple(make_column(config, name, keys) for name in backends)
    rows = tuple(make_row(key, columns) for key in keys)
    return Comparison(stage, config, columns, rows)
