"""Runs programs from any thread: the side of the sandbox that callers see."""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Literal, TypeAlias

from retrain.errors import ConfigError
from retrain.reward.hub.pool import code_pool
from retrain.sandbox.limits import Finished, Level, Limits, Program, Stopped

Isolation: TypeAlias = Literal["required", "best", "none"]
"""Namespaces or nothing; the best level of this machine, with a warning; limits alone."""

_RUN = "retrain.sandbox.worker:run"
_POSSIBLE = "retrain.sandbox.worker:possible"
_GRACE = 15.0
_POSSIBLE_SECONDS = 60.0


def run_isolated(program: Program, limits: Limits, level: Level) -> Finished:
    """Run a program to its end, and end every process that it started.

    Args:
        program: What is run.
        limits: What it may use; going over one ends it, and is a result.
        level: How it is kept apart; see `isolation_level`.

    Raises:
        RewardFailure: It could not be started, and not for a fault of its own.
    """
    answer = code_pool().call(
        _RUN, asdict(program), asdict(limits), level, seconds=limits.seconds + _GRACE
    )
    stopped = answer.pop("stopped")
    return Finished(stopped=None if stopped is None else Stopped(stopped), **answer)


def isolation_level(isolation: Isolation) -> Level:
    """How programs are kept apart on this machine; found out once per process, by trying.

    Raises:
        ConfigError: `required`, and this machine does not allow namespaces; or it is not Linux.
        RewardFailure: The worker processes cannot be started.
    """
    if sys.platform != "linux":
        raise ConfigError("programs are run with limits on Linux only; use interpreter: monty")
    if isolation == "none":
        return Level.LIMITS
    level, why = _found()
    if isolation == "required" and level is not Level.NAMESPACES:
        raise ConfigError(
            f"isolation: required, but this machine allows no namespaces ({why}); allow user "
            "namespaces, or say isolation: best and read what it does not stop"
        )
    return level


def _found() -> tuple[Level, str]:
    with _LOCK:
        if not _FOUND:
            level, reasons = code_pool().call(_POSSIBLE, [_PACKAGE], seconds=_POSSIBLE_SECONDS)
            why = "; ".join(f"{better}: {reason}" for better, reason in reasons.items())
            if level != Level.NAMESPACES:
                warnings.warn(
                    f"programs run on the level {level!r}, without namespaces ({why}): they reach "
                    "the network and can read files; see docs/rewards.md",
                    stacklevel=3,
                )
            _FOUND.append((Level(level), why))
        return _FOUND[0]


_PACKAGE = str(Path(__file__).resolve().parent.parent)
_LOCK = threading.Lock()
_FOUND: list[tuple[Level, str]] = []
