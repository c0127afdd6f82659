"""A diagnosis for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from retrain import __version__
from retrain.report.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from retrain.cli.doctor_diagnosis import Diagnosis
    from retrain.cli.doctor_machine import Machine
    from retrain.cli.doctor_packages import Package

_GIB = 1024**3


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print what can run here, what cannot and why, then what is installed."""
    _section("what can run here", _abilities(diagnosis), console)
    _section("machine", _machine(diagnosis.machine), console)
    _section("packages", _packages(diagnosis.packages), console)


def _abilities(diagnosis: Diagnosis) -> Iterator[str]:
    for name, fault in diagnosis.modules.items():
        if fault is not None:
            yield f"no   train: the package {name} {fault}"
    for backend in diagnosis.backends:
        yield f"{_word(backend.can_train)} train with backend: {backend.name}"
        yield from (f"       {problem}" for problem in backend.problems)
    for feature in diagnosis.features:
        yield f"{_word(feature.works)} {feature.name}"
        yield from (f"       {command}" for command in feature.fix)
    if not diagnosis.machine.writable:
        yield "no   write here: the working directory is read-only; set output_dir elsewhere"


def _machine(machine: Machine) -> Iterator[str]:
    memory = "unknown" if machine.memory is None else f"{machine.memory / _GIB:.1f} GiB"
    yield f"python {machine.python}, retrain {__version__}"
    yield f"{machine.threads} CPU threads, {memory} of memory"
    for number, gpu in enumerate(machine.gpus):
        yield f"GPU {number}: {gpu.name}, {gpu.memory / _GIB:.1f} GiB (CUDA {machine.cuda})"
    if not machine.gpus:
        yield machine.gpu_fault or machine.torch_fault or "no GPU: everything runs on the CPU"


def _packages(packages: tuple[Package, ...]) -> Iterator[str]:
    width = max(len(package.name) for package in packages)
    for package in packages:
        state = package.version or f"missing; {package.install}"
        note = f"{package.note}; " if package.note else ""
        yield f"{package.name:<{width}}  {note}{state}"


def _word(works: bool) -> str:
    return "yes " if works else "no  "


def _section(title: str, lines: Iterator[str], console: Console) -> None:
    console.print(f"-- {title} --", style="bold", markup=False, highlight=False)
    for line in lines:
        console.print(one_line(line), markup=False, highlight=False, soft_wrap=True, emoji=False)
    console.print()
