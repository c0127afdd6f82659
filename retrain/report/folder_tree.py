"""Folders made so that they can be unmade when what needs them fails."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path


def make_folders(path: Path, made: list[Path]) -> None:
    """Make a folder and its missing parents, noting each one made."""
    if path.is_dir():
        return
    if path.parent != path:
        make_folders(path.parent, made)
    try:
        path.mkdir()
    except FileExistsError as error:
        if path.is_dir():
            return
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", str(path)) from error
    made.append(path)


def unmake(made: list[Path]) -> None:
    """Remove what was made, newest first; what others have put something into stays."""
    for path in reversed(made):
        with suppress(OSError):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
