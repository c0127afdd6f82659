"""Test suites for whoever writes a backend, an engine, an environment, a renderer or a reward.

Each suite is a plain base class for pytest: subclass it, say what is to be tested, and run pytest.
`docs/testing.md` shows how. Importing `retrain` does not import this package, and importing this
package does not import pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from retrain.errors import MissingDependency

if TYPE_CHECKING:
    from retrain.testing.backend import BackendSuite
    from retrain.testing.backend_tape import TapeBackendSuite
    from retrain.testing.canned.playing import CannedGroup
    from retrain.testing.engine import EngineSuite
    from retrain.testing.environment import EnvironmentSuite
    from retrain.testing.renderer import RendererSuite
    from retrain.testing.reward import RewardSuite
    from retrain.testing.tokenizer import KitTokenizer

__all__ = [
    "BackendSuite",
    "CannedGroup",
    "EngineSuite",
    "EnvironmentSuite",
    "KitTokenizer",
    "RendererSuite",
    "RewardSuite",
    "TapeBackendSuite",
]

_HOME = {
    "BackendSuite": "backend",
    "CannedGroup": "canned.playing",
    "EngineSuite": "engine",
    "EnvironmentSuite": "environment",
    "KitTokenizer": "tokenizer",
    "RendererSuite": "renderer",
    "RewardSuite": "reward",
    "TapeBackendSuite": "backend_tape",
}
_NEEDED = ("pytest", "jinja2")


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _NEEDED:
            raise
        raise MissingDependency(
            f"retrain.testing needs {package}: pip install 'retrain[testing]'"
        ) from error
