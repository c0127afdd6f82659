"""Loaded by every Python process of a laptop run, since PYTHONPATH names this folder first.

Python imports one module of this name at start-up; where the environment has one of its own, that
is loaded too.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

from backends.slime.laptop import hooks

_HERE = Path(__file__).resolve().parent


def _load_the_environments_own() -> None:
    elsewhere = [folder for folder in sys.path if Path(folder).resolve() != _HERE]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


sys.path.append(str(_HERE.parent / "standins"))  # last: a real package is preferred
hooks.install()
_load_the_environments_own()
