"""What can run here, and why the rest cannot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import retrain
from retrain.cli.doctor_machine import Machine, find_machine
from retrain.cli.doctor_packages import (
    Feature,
    Package,
    find_features,
    find_packages,
    module_folder,
)

OURS = ("bridges", "backends")
"""Top-level packages of this distribution that another one on the path could stand before."""


@dataclass(frozen=True, slots=True)
class BackendState:
    """One backend.

    Attributes:
        name: The name that `algorithm.backend` chooses it by.
        can_train: Whether nothing stands in its way.
        problems: What its check says; warnings too.
    """

    name: str
    can_train: bool
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What can run here.

    Attributes:
        machine: The machine.
        packages: What is installed.
        features: What works beside training.
        modules: Name -> fault of the packages of this distribution; None for no fault.
        backends: The backends; empty where `modules` has a fault.
    """

    machine: Machine
    packages: tuple[Package, ...]
    features: tuple[Feature, ...]
    modules: dict[str, str | None]
    backends: tuple[BackendState, ...]

    @property
    def can_train(self) -> bool:
        """Whether at least one backend can train."""
        return any(backend.can_train for backend in self.backends)

    def document(self) -> dict[str, Any]:
        """The diagnosis as JSON values."""
        return {
            "retrain": retrain.__version__,
            "can_train": self.can_train,
            **asdict(self),
        }


def diagnose() -> Diagnosis:
    """Look at the packages, the backends and the machine; nothing heavy is imported here."""
    machine = find_machine()
    packages = find_packages({"torch": machine.torch_fault})
    modules = {name: _fault(name) for name in OURS}
    return Diagnosis(
        machine=machine,
        packages=packages,
        features=find_features(packages),
        modules=modules,
        backends=() if any(modules.values()) else _backends(machine.torch_fault),
    )


def _fault(name: str) -> str | None:
    """Why `import NAME` would not give this distribution's package."""
    expected = Path(retrain.__file__).resolve().parents[1] / name
    found = module_folder(name)
    if found is None:
        return f"cannot be imported; expected at {expected}: install retrain again"
    if found.resolve() == expected:
        return None
    return (
        f"resolves to {found}, not to {expected}: take {found.parent} off PYTHONPATH, or start "
        "in another folder"
    )


def _backends(torch_fault: str) -> tuple[BackendState, ...]:
    """What the backends say; torch carries them all."""
    from retrain.compose import check_backends

    broken = (torch_fault,) if torch_fault else ()
    return tuple(
        BackendState(
            name,
            can_train=not broken and not any(problem.stops for problem in problems),
            problems=(*broken, *map(str, problems)),
        )
        for name, problems in check_backends().items()
    )
