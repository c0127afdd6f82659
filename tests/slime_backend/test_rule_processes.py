"""Nobody else's processes: what ends every Ray, SGLang and Python of a machine is never called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

BACKEND = Path(__file__).parents[2] / "backends" / "slime"
SOURCES = sorted(BACKEND.rglob("*.py"))
ENDING_ALL = {"stop", "pkill", "killall", "fuser"}
"""Words of a command that would: `ray stop`, and what slime's own launch scripts begin with."""
LAUNCHERS = {"execute_train", "command_utils"}


def words(tree: ast.AST) -> Iterator[str]:
    """Every word of a list or a tuple of texts, which is how a command is written here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            yield from (e.value for e in node.elts if isinstance(e, ast.Constant) and e.value)


def called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_source_calls_what_ends_everybodys_processes(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not ENDING_ALL & set(map(str, words(tree)))
    assert not {"system", "popen"} & set(called(tree)), "commands are lists of words"
    names = [part for name in called(tree) for part in name.split(".")]
    assert not LAUNCHERS & set(names)


def test_the_check_finds_such_a_command() -> None:
    guilty = ast.parse("run(['ray', 'stop', '--force'])\nfrom slime.utils.command_utils import x")
    assert ENDING_ALL & set(words(guilty))
    assert any("command_utils" in name for name in called(guilty))
