"""Live progress of a run: a bar on a terminal, one plain line per iteration elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO

from retrain.report.terminal import one_line

Clock = Callable[[], float]


class Progress(Protocol):
    """Shows how a run goes. Calls may come from one thread at a time."""

    def start(self, total_iterations: int, title: str, *, completed: int = 0) -> None:
        """Begin.

        Args:
            total_iterations: How many iterations the run has.
            title: The run's name.
            completed: How many a resumed run has behind it.
        """
        ...

    def update(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Show that iteration number `iteration` (from 1) is done, with its metrics."""
        ...

    def note(self, text: str) -> None:
        """Show a message."""
        ...

    def stop(self) -> None:
        """End, leaving the terminal as it was; does nothing the second time."""
        ...


def make_progress(stream: TextIO | None = None) -> Progress:
    """Make the progress that fits a stream.

    Args:
        stream: Where to show it; None is standard error.

    Returns:
        A live bar where the stream is a terminal that can move its cursor, else plain lines.
    """
    target = sys.stderr if stream is None else stream
    if not target.isatty():
        return PlainProgress(target)
    from retrain.report.live_progress import LiveProgress, can_be_live

    return LiveProgress(target) if can_be_live(target) else PlainProgress(target)


MOST_LINES = 50
"""About how many lines plain progress writes for a run, however many iterations it has."""


class PlainProgress:
    """One line per iteration, or per few iterations of a long run, free of control characters."""

    def __init__(self, stream: TextIO, *, clock: Clock = time.monotonic) -> None:
        """Write to `stream`, telling time by `clock` (seconds)."""
        self._stream = stream
        self._pace = Pace(clock)
        self._total = 0

    def start(self, total_iterations: int, title: str, *, completed: int = 0) -> None:
        """Begin; see `Progress.start`."""
        self._total = total_iterations
        self._pace.start(total_iterations, completed)
        resumed = f", {completed} done before" if completed else ""
        self._line(f"{title}: {total_iterations} iterations{resumed}")

    def update(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Write the iteration's line; every evaluation, and the last iteration, has its own."""
        every = max(1, self._total // MOST_LINES)
        evaluated = any(name.startswith("eval/") for name in metrics)
        if iteration % every and iteration != self._total and not evaluated:
            return
        left = duration(self._pace.seconds_left(iteration))
        facts = [f"{name} {value}" for name, value in headline(metrics).items()]
        width = len(str(self._total))
        self._line(
            "  ".join([f"iteration {iteration:{width}}/{self._total}", *facts, f"left {left}"])
        )

    def note(self, text: str) -> None:
        """Write a message on a line of its own."""
        self._line(text)

    def stop(self) -> None:
        """End; plain lines leave nothing to clean up."""

    def _line(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        safe = one_line(text).encode(encoding, "backslashreplace").decode(encoding)
        self._stream.write(safe + "\n")
        self._stream.flush()


class Pace:
    """Estimates the time left from the iterations done since `start`."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        """Tell time by `clock`, in seconds."""
        self._clock = clock
        self._total = 0
        self._completed = 0
        self._began = clock()

    def start(self, total: int, completed: int) -> None:
        """Begin, with `completed` of `total` iterations done before."""
        self._total, self._completed, self._began = total, completed, self._clock()

    def seconds_left(self, iteration: int) -> float | None:
        """Seconds until the end; None while nothing is known."""
        done = iteration - self._completed
        if done <= 0:
            return None
        return (self._clock() - self._began) / done * max(0, self._total - iteration)


def headline(metrics: Mapping[str, float]) -> dict[str, str]:
    """The few metrics that a progress line has room for, formatted; absent ones left out.

    The loss stands there only where nothing was rolled out: under reinforcement learning it says
    little. The held-out reward stands there only where the environment reports no success.
    """
    rolled_out = any(name in metrics for name in _HEADLINE)
    solved = metrics.get("eval/success") is not None
    return {
        label: form.format(metrics[name])
        for name, (label, form) in (_HEADLINE if rolled_out else _SUPERVISED).items()
        if metrics.get(name) is not None and not (solved and name == "eval/reward/mean")
    }


_HEADLINE = {
    "reward/mean": ("reward", "{:+.3f}"),
    "success": ("success", "{:.2f}"),
    "eval/success": ("held-out", "{:.2f}"),
    "eval/reward/mean": ("held-out reward", "{:+.3f}"),
    "response/tokens": ("tokens", "{:.0f}"),
    "rollout/tokens_per_second": ("tokens/s", "{:,.0f}"),
    "rollout/dropped": ("dropped", "{:.0f}"),
    "rollout/carried": ("carried", "{:.0f}"),
}
_SUPERVISED = {"train/loss": ("loss", "{:.3f}")}


def duration(seconds: float | None) -> str:
    """Seconds as people say them: "?", "42 s", "3 min 05 s", "2 h 07 min"."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
