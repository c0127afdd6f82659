"""The `Backend` protocol: what retrain asks of a training framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from retrain.config import RunConfig
from retrain.errors import ConfigError
from retrain.parity import LossReading, Recorded
from retrain.report.result import RunResult


class Severity(StrEnum):
    """How bad a problem is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a backend cannot honour, or that the user should know.

    Attributes:
        key: The configuration key it is about, or "" for the machine.
        message: What is wrong and what to do.
        severity: An error stops the run; a warning does not.
    """

    key: str
    message: str
    severity: Severity = Severity.ERROR

    @property
    def stops(self) -> bool:
        """Whether it stops the run."""
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        return f"{self.key}: {self.message}" if self.key else self.message


@dataclass(frozen=True, slots=True)
class Plan:
    """Exactly what a framework will receive: the dry run.

    Attributes:
        backend: The backend's name.
        config: The resolved configuration.
        entry: What of the framework is called ("trl.GRPOTrainer").
        arguments: Its keyword arguments; JSON values.
        sizes: Derived sizes, by name.
        problems: What cannot be honoured, and warnings.
        memory: Estimated bytes by what they hold, and `peak` where all parts are known; empty where
            nobody can tell.
        command: The command line, to be shown: credentials are redacted; empty for a framework that
            is called in this process.
    """

    backend: str
    config: RunConfig
    entry: str
    arguments: Mapping[str, Any]
    sizes: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stop the run."""
        return tuple(p for p in self.problems if p.severity is Severity.ERROR)

    def require_runnable(self) -> None:
        """Refuse a plan that cannot run.

        Raises:
            ConfigError: Listing every error.
        """
        if self.errors:
            raise ConfigError("\n".join(str(problem) for problem in self.errors))


class Backend(Protocol):
    """One training framework. It owns the training loop and calls us."""

    @property
    def name(self) -> str:
        """The name that `algorithm.backend` chooses it by."""
        ...

    def check(self) -> list[Problem]:
        """What stands in the way on this machine (a package that is missing, a version)."""
        ...

    def plan(self, config: RunConfig) -> Plan:
        """Say exactly what the framework will receive. Pure: nothing is written or trained."""
        ...

    def train(self, plan: Plan, *, resume: bool = False) -> RunResult:
        """Train to the end; blocks.

        Args:
            plan: What `plan` gave.
            resume: Go on from the newest complete checkpoint of the run folder.

        Raises:
            RetrainError: Bad input, or a failure whose policy is to raise.
        """
        ...

    def export(self, run: Path, to: Path) -> Path:
        """Write a run's newest weights in Hugging Face's format.

        Args:
            run: A run folder.
            to: Where to write; must not exist.
        """
        ...


@runtime_checkable
class ReadsLoss(Protocol):
    """A backend that can tell what it gives to its loss, for `retrain parity`; optional."""

    def read_loss(self, recorded: Recorded) -> LossReading:
        """Play a tape through the backend's own path, up to the loss.

        Args:
            recorded: The tape's groups, and the configuration that plays them.

        Raises:
            ConfigError: The backend cannot honour the configuration.
            RetrainError: The tape cannot be played through it.
        """
        ...


@runtime_checkable
class KnowsDefaults(Protocol):
    """A backend that knows its framework's own defaults, for `retrain plan --compare`; optional."""

    def defaults(self, plan: Plan) -> Mapping[str, Any]:
        """What the framework would take for each argument of a plan, were it not given.

        Args:
            plan: What `plan` gave.

        Returns:
            Argument to value; those for which the framework has none, or computes one, are left
            out.
        """
        ...
