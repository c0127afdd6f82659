"""The live bar of a run on a terminal. Importing this file imports rich."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from retrain.report.progress import Clock, Pace, duration, headline
from retrain.report.terminal import one_line, printable


def can_be_live(stream: TextIO) -> bool:
    """Whether a terminal can move its cursor (TERM=dumb cannot)."""
    console = Console(file=stream)
    return console.is_terminal and not console.is_dumb_terminal


class LiveProgress:
    """Two lines: the title, a bar and the time left; then reward, success, tokens and tokens/s."""

    def __init__(self, stream: TextIO, *, clock: Clock = time.monotonic) -> None:
        """Draw on the terminal `stream`, telling time by `clock` (seconds)."""
        self._console = Console(file=stream)
        self._pace = Pace(clock)
        self._latest: dict[str, float] = {}
        self._bar = _TwoLines(self._console)
        self._task = self._bar.add_task("", total=None, start=False, left="")

    def start(self, total_iterations: int, title: str, *, completed: int = 0) -> None:
        """Begin; see `Progress.start`."""
        self._pace.start(total_iterations, completed)
        name = one_line(title)
        self._bar.update(self._task, description=name, total=total_iterations, completed=completed)
        self._bar.start_task(self._task)
        self._bar.start()

    def update(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Advance the bar and show the latest value of each metric."""
        self._latest |= metrics
        self._bar.facts = "  ".join(f"{name} {v}" for name, v in headline(self._latest).items())
        left = f"{duration(self._pace.seconds_left(iteration))} left"
        self._bar.update(self._task, completed=iteration, left=left, refresh=True)

    def note(self, text: str) -> None:
        """Print a message above the bar."""
        self._console.print(Text(printable(text)), soft_wrap=True)

    def stop(self) -> None:
        """Take the bar down, its last state left on the screen."""
        self._bar.stop()


class _TwoLines(RichProgress):
    """rich's bar with a line of facts below it."""

    def __init__(self, console: Console) -> None:
        self.facts = ""
        title = Column(no_wrap=True, max_width=30, overflow="ellipsis")
        super().__init__(
            TextColumn("{task.description}", style="bold", markup=False, table_column=title),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
            refresh_per_second=4,
            redirect_stdout=False,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, then the facts."""
        yield from super().get_renderables()
        yield Text(self.facts, style="cyan", no_wrap=True, overflow="ellipsis")
