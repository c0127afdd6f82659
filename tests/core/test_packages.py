from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from retrain.packages import package_folders


def package(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise AssertionError('imported')\n")
    return folder


def test_a_package_is_found_along_a_path(tmp_path: Path) -> None:
    package(tmp_path / "one", "wanted")
    path = [str(tmp_path / "other"), str(tmp_path / "one")]
    assert package_folders("wanted", path) == [tmp_path / "one" / "wanted"]
    assert package_folders("missing", path) == []


def test_what_has_been_imported_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wanted", ModuleType("wanted"))
    monkeypatch.syspath_prepend(package(tmp_path, "wanted"))
    assert package_folders("wanted") == [tmp_path / "wanted"]


def test_an_editable_installation_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As setuptools makes it for a flat checkout: a finder, and nothing on the path."""
    package(tmp_path, "wanted")

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            return PathFinder.find_spec(name, [str(tmp_path)]) if name == "wanted" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert package_folders("wanted") == [tmp_path / "wanted"]
