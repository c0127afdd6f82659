"""The kit is light, asks for pytest only when it is used, and says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from retrain import testing

HEAVY = {"numpy", "torch", "transformers", "trl", "ray", "datasets"}
LIGHT = "import sys, {}; print(*{{name.partition('.')[0] for name in sys.modules}})"


def loaded(module: str) -> set[str]:
    program = LIGHT.format(module)
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module", ["retrain", "retrain.testing", "retrain.testing.canned.world", "retrain.compose"]
)
def test_pytest_is_not_imported(module: str) -> None:
    assert not loaded(module) & {"pytest", "_pytest"}


@pytest.mark.parametrize("name", ["backend", "backend_tape", "engine", "environment", "reward"])
def test_a_suite_loads_nothing_heavy(name: str) -> None:
    assert not loaded(f"retrain.testing.{name}") & HEAVY


@pytest.mark.parametrize("package", ["pytest", "jinja2"])
def test_a_missing_package_is_named_with_its_command(package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from retrain import testing\n"
        "try:\n    testing.RewardSuite\n"
        "except ImportError as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("MissingDependency")
    assert f"needs {package}: pip install 'retrain[testing]'" in done.stdout


def test_every_name_is_there() -> None:
    for name in testing.__all__:
        assert getattr(testing, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Suite'"):
        _ = testing.Suite  # type: ignore[attr-defined]
