"""Files that are either the old ones or the new ones, never half of each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` when the block ends well.

    The bytes go to a temporary file beside `path`, which is synchronised to disk and then renamed
    over it. When the block raises, `path` stays as it was and the temporary file is removed.

    Args:
        path: The file to replace or to make; its folder must exist.

    Raises:
        OSError: The folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_bytes(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path`'s content, as `replacing` does."""
    with replacing(path) as file:
        file.write(data)


def sync_folder(path: Path) -> None:
    """Synchronise a folder's entries to disk, so that a rename survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
