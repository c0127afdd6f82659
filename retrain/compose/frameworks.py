"""Training frameworks: backends found by name, and what they say about themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrain.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from backends.base import Backend, Plan, Problem
    from retrain.parity import LossReading, Recorded
    from retrain.report.start import Start


def load_backend(name: str) -> Backend:
    """Find a backend by name, import path or entry point.

    Raises:
        ConfigError: There is none of that name.
        MissingDependency: Its framework is not installed.
    """
    from backends.registry import BACKENDS

    return BACKENDS.get(name)()


def backend_names() -> tuple[str, ...]:
    """Every backend that is known, installed or not."""
    from backends.registry import BACKENDS

    return BACKENDS.names()


def read_loss(name: str, recorded: Recorded) -> LossReading:
    """What a backend gives to its loss when a tape is played through it.

    Raises:
        MissingDependency: It is not installed, or cannot tell.
        ConfigError: It cannot honour the configuration.
    """
    from backends.base import ReadsLoss

    backend = load_backend(name)
    if not isinstance(backend, ReadsLoss):
        raise MissingDependency(f"backend {name!r} has no read_loss, and cannot be compared")
    return backend.read_loss(recorded)


def framework_defaults(backend: Backend, plan: Plan) -> Mapping[str, Any]:
    """What a framework itself would take for a plan's arguments; nothing where nobody can tell."""
    from backends.base import KnowsDefaults

    return backend.defaults(plan) if isinstance(backend, KnowsDefaults) else {}


def find_start(run: Path) -> Start:
    """The newest checkpoint of a run, for another run to go on from.

    Raises:
        RunFolderError: There is none.
        ConfigError: It cannot be gone on from.
    """
    from backends.starts import find_start as find

    return find(run)


def check_backends() -> dict[str, list[Problem]]:
    """What stands in each backend's way on this machine, warnings included, by backend."""
    from backends.registry import BACKENDS

    return {name: _check_backend(name) for name in BACKENDS.names()}


def _check_backend(name: str) -> list[Problem]:
    try:
        return load_backend(name).check()
    except (ConfigError, MissingDependency) as error:
        return [make_problem("", str(error))]


def make_problem(key: str, message: str, *, stops: bool = True) -> Problem:
    """Make a problem, as a backend's plan lists them.

    Args:
        key: The configuration key it is about, or "" where the message names it.
        message: What is wrong and what to do.
        stops: Whether it stops the run; else it is a warning.
    """
    from backends.base import Problem, Severity

    return Problem(key, message, Severity.ERROR if stops else Severity.WARNING)
