"""Dependencies point one way: retrain <- bridges <- backends, and the core loads nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {
    "accelerate",
    "datasets",
    "matplotlib",
    "numpy",
    "peft",
    "ray",
    "sglang",
    "slime",
    "torch",
    "transformers",
    "trl",
    "vllm",
}
ALLOWED = {
    "retrain": {"retrain"},
    "bridges": {"retrain", "bridges"},
    "backends": {"retrain", "bridges", "backends"},
    "examples": {"retrain", "examples"},
}
OURS = {"retrain", "bridges", "backends", "examples", "tests"}


def imports(path: Path, *, top_only: bool) -> Iterator[tuple[int, str]]:
    """Line and top-level name of every import that runs; those for type checkers do not."""
    for node in walk(ast.parse(path.read_text(encoding="utf-8")), top_only=top_only):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


def walk(node: ast.AST, *, top_only: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if top_only and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield child
        yield from walk(child, top_only=top_only)


def files(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "generated" not in path.parts)


def exempt(path: Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    return name.startswith(("retrain/compose/", "examples/bridges/"))


@pytest.mark.parametrize("package", ALLOWED)
def test_dependencies_point_one_way(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files(package)
        if not exempt(path)
        for line, name in imports(path, top_only=False)
        if name in OURS - ALLOWED[package]
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["retrain", "bridges"])
def test_core_imports_nothing_heavy_at_the_top(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files(package)
        if not path.name.startswith("transformers_")
        for line, name in imports(path, top_only=True)
        if name in HEAVY - {"matplotlib", "numpy"}
    ]
    assert wrong == []


def test_only_a_backend_s_own_folder_knows_its_framework() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files("backends")
        if path.parent.name == "backends"
        for line, name in imports(path, top_only=False)
        if name in HEAVY
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "module",
    ["retrain", "retrain.compose", "retrain.training", "retrain.environment", "bridges"],
)
def test_importing_loads_no_heavy_module(module: str) -> None:
    program = f"import sys, {module}; print(*{{n.partition('.')[0] for n in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert set(done.stdout.split()) & HEAVY == set()
