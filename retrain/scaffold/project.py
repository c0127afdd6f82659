"""Copies a project to start from into a new folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from retrain.errors import ConfigError, DataError, nearest

KINDS: Mapping[str, str] = {
    "tool": "the model calls a tool that you write as a Python method",
    "game": "the model plays against an environment that answers turn by turn",
    "mcp": "the model calls the tools of an MCP server",
    "single-turn": "the model answers a question, and a reward function rates the answer",
}
"""What a project may be like."""

_PROJECTS = Path(__file__).parent / "projects"
_NAME = "PROJECT_NAME"
"""Stands for the project's name in the texts that are copied."""


def make_project(folder: Path, like: str) -> tuple[Path, ...]:
    """Write a project: environment, reward, configuration, test and README.

    Args:
        folder: A folder that does not exist, or is empty; its name is the project's.
        like: A key of `KINDS`.

    Returns:
        The files, relative to the folder.

    Raises:
        ConfigError: There is no such kind.
        DataError: The folder holds something, or cannot be written. Nothing is changed then.
    """
    if like not in KINDS:
        raise ConfigError(f"--like {like}: {nearest(like, KINDS)}; known are {', '.join(KINDS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: there is something already; name a folder that is not there")
    source = _PROJECTS / like.replace("-", "_")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".retrain-init-") as scratch:
            made = Path(scratch) / "project"
            shutil.copytree(source, made, ignore=shutil.ignore_patterns("__pycache__"))
            _fill_in(made, folder.resolve().name)
            made.replace(folder)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return tuple(sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()))


def _fill_in(folder: Path, name: str) -> None:
    for path in folder.rglob("*"):
        if path.suffix in (".md", ".yaml"):
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(_NAME, name), encoding="utf-8")
