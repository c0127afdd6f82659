"""One backend's side: its plan, and which arguments of it follow from which key.

Nothing is listed by hand: a backend is asked to plan the configuration again with one key changed,
and the arguments that are then others are what its framework gets for that key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from retrain.comparison.keys import Key, changed
from retrain.compose import framework_defaults, load_backend
from retrain.config import RunConfig
from retrain.config.hyperparameters import PREFIXES
from retrain.config.problems import explain, report
from retrain.errors import ConfigError, MissingDependency, RetrainError

if TYPE_CHECKING:
    from backends.base import Backend, Plan

_MOST_CHANGES = 3
"""Configurations that are planned for one key."""


@dataclass(frozen=True, slots=True)
class Column:
    """What one backend makes of a configuration.

    Attributes:
        backend: Its name.
        plan: Its plan; None where there is none.
        absent: Why it is not here; "" where it is.
        refused: Why it cannot plan the configuration; "" where it can.
        follows: Key to the arguments that follow from it, in the plan's order.
        defaults: What the framework itself would take for each argument.
    """

    backend: str
    plan: Plan | None = None
    absent: str = ""
    refused: str = ""
    follows: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What the framework is told."""
        return {} if self.plan is None else self.plan.arguments

    @property
    def options(self) -> frozenset[str]:
        """The framework's own options that somebody set, with their prefix."""
        if self.plan is None:
            return frozenset()
        hyper = self.plan.config.algorithm.hyperparameters
        return frozenset(f"{self.backend}_{name}" for name in hyper.prefixed(self.backend))

    @property
    def fixed(self) -> tuple[str, ...]:
        """The arguments that follow from no key."""
        bound = {name for names in self.follows.values() for name in names}
        return tuple(name for name in self.arguments if name not in bound)


def make_column(config: RunConfig, name: str, keys: Sequence[Key]) -> Column:
    """Ask one backend.

    Args:
        config: One training's configuration, for whichever backend.
        name: The backend.
        keys: The keys to ask about.

    Raises:
        ConfigError: There is no backend of that name.
    """
    try:
        backend = load_backend(name)
    except MissingDependency as error:
        return Column(name, absent=str(error))
    try:
        own = for_backend(config, name)
        plan = backend.plan(own)
    except MissingDependency as error:
        return Column(name, absent=str(error))
    except RetrainError as error:
        return Column(name, refused=str(error))
    follows = {key.at: _following(backend, own, plan, key) for key in keys}
    return Column(name, plan, follows=follows, defaults=framework_defaults(backend, plan))


def for_backend(config: RunConfig, name: str) -> RunConfig:
    """The same training on another backend, resolved anew: its own options may set keys.

    Raises:
        ConfigError: The other backend's options contradict a key.
    """
    source = config.model_dump(exclude_unset=True, exclude={"stages"})
    theirs = f"{config.algorithm.backend}_"
    hyper = source["algorithm"].get("hyperparameters", {})
    if config.algorithm.backend == "slime" and hyper.get("slime_train_async") is True:
        source.get("rollout", {}).pop("asynchronous", None)
    if not theirs.startswith(PREFIXES):
        hyper = {key: value for key, value in hyper.items() if not key.startswith(theirs)}
    source["algorithm"] = {**source["algorithm"], "backend": name, "hyperparameters": hyper}
    try:
        return RunConfig.model_validate(source).located(config.base_dir)
    except ValidationError as error:
        found = explain(error, source, RunConfig)
        raise ConfigError(report(f"on {name}", found)) from error


def _following(backend: Backend, config: RunConfig, plan: Plan, key: Key) -> tuple[str, ...]:
    """The arguments that change with a key; where no change of it can be planned, none."""
    found: set[str] = set()
    planned = 0
    for other in changed(config, key):
        try:
            arguments = _told(backend.plan(other))
        except RetrainError:
            continue
        before = _told(plan)
        found |= {n for n in (*before, *arguments) if before.get(n) != arguments.get(n)}
        planned += 1
        if planned == _MOST_CHANGES:
            break
    order = [*plan.arguments, *sorted(found - plan.arguments.keys())]
    return tuple(name for name in order if name in found)


def _told(plan: Plan) -> dict[str, Any]:
    return {**plan.arguments, "(program)": plan.entry}
