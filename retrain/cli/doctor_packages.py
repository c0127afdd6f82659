"""The packages that retrain's features stand on: what is installed, and how to install the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from retrain.packages import package_folders

_SLIME = "git clone https://github.com/THUDM/slime && pip install --no-deps -e ./slime"

INSTALL = {
    "torch": "pip install 'retrain[engine]'",
    "transformers": "pip install 'retrain[engine]'",
    "trl": "pip install 'retrain[trl]'",
    "accelerate": "pip install 'retrain[trl]'",
    "datasets": "pip install 'retrain[trl]'",
    "peft": "pip install 'retrain[trl]'",
    "bitsandbytes": "pip install 'retrain[qlora]'",
    "matplotlib": "pip install 'retrain[plot]'",
    "aiohttp": "pip install 'retrain[http]'",
    "slime": _SLIME,
    "sglang": "pip install sglang",
    "vllm": "pip install vllm",
    "ray": "pip install 'retrain[slime]'",
}
"""Name of the distribution and of the module -> the command that installs it."""

FEATURES = {
    "rollout and eval in this process": ("torch", "transformers"),
    "rollout and eval through a server": ("aiohttp",),
    "adapters (model.peft)": ("torch", "transformers", "peft"),
    "quantised models (model.peft.bits)": ("torch", "transformers", "peft", "bitsandbytes"),
    "the learning curve (curve.png)": ("matplotlib",),
}
"""What works beside training -> the packages that it takes."""


@dataclass(frozen=True, slots=True)
class Package:
    """One package.

    Attributes:
        name: Its distribution.
        version: What is installed; None where it is missing, broken, or another of its name.
        install: The command that installs it.
        note: What is odd about what is installed; "" for nothing.
    """

    name: str
    version: str | None
    install: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that works here, or not.

    Attributes:
        name: What it is.
        works: Whether the packages that it takes are installed.
        fix: The commands that install what is missing; empty where it works.
    """

    name: str
    works: bool
    fix: tuple[str, ...] = ()


def find_packages(faults: Mapping[str, str]) -> tuple[Package, ...]:
    """Look every package up, without importing any.

    Args:
        faults: Name -> why importing it fails, where somebody has found out.
    """
    found = (_slime() if name == "slime" else _find(name) for name in INSTALL)
    return tuple(
        replace(package, version=None, note=faults[package.name])
        if faults.get(package.name)
        else package
        for package in found
    )


def find_features(packages: tuple[Package, ...]) -> tuple[Feature, ...]:
    """What the packages make possible."""
    missing = {package.name: package.install for package in packages if package.version is None}
    return tuple(
        Feature(
            name,
            works=not any(package in missing for package in needed),
            fix=tuple(dict.fromkeys(missing[package] for package in needed if package in missing)),
        )
        for name, needed in FEATURES.items()
    )


def module_folder(name: str) -> Path | None:
    """The folder that `import name` would read a top-level package from; nothing is imported."""
    return next(iter(package_folders(name)), None)


def _find(name: str) -> Package:
    found = _version(name)
    if found is not None and find_spec(name) is None:
        return Package(name, None, INSTALL[name], f"{found} is recorded and cannot be imported")
    return Package(name, found, INSTALL[name])


def _slime() -> Package:
    """slime, told apart from the package of that name on PyPI (a mixed-effects model)."""
    found, folder = _version("slime"), module_folder("slime")
    if folder is not None and (folder / "utils" / "types.py").is_file():
        return Package("slime", found or "from source", _SLIME)
    if found is None and folder is None:
        return Package("slime", None, _SLIME)
    what = f"slime {found}" if found else str(folder)
    fix = f"pip uninstall --yes slime && {_SLIME}" if found else _SLIME
    return Package(
        "slime", None, fix, f"{what} is another package of that name (it has no slime.utils.types)"
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
