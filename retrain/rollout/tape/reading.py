"""`Tape`: a recorded tape, read whole or in parts."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from retrain.closing import Closing
from retrain.errors import DataError
from retrain.rollout.tape.format import (
    HEADER,
    TapeGroup,
    TapeHeader,
    group_name,
    read_group,
    read_header,
)


class Tape(Closing):
    """An open tape; a context manager.

    Attributes:
        path: The file.
        header: What it says about itself.
    """

    def __init__(self, path: Path) -> None:
        """Open a tape; its groups are read when they are asked for.

        Raises:
            DataError: There is no such file, or it is no tape that can be read.
        """
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"{path}: is no tape ({reason}); record one with: retrain rollout C.yaml "
                "--tape FILE"
            ) from error
        self.header: TapeHeader = read_header(self._read(HEADER), str(path))
        names = set(self._archive.namelist())
        self._length = sum(name.startswith("groups/") for name in names)

    def __len__(self) -> int:
        return self._length

    def group(self, position: int) -> TapeGroup:
        """Read one group.

        Args:
            position: 0 is the first one that was finished.

        Raises:
            DataError: There is none, or it is damaged.
        """
        name = group_name(position)
        return read_group(self._read(name), f"{self.path}, {name}")

    def groups(self) -> Iterator[TapeGroup]:
        """Read the groups one at a time, in the order in which they were finished."""
        return (self.group(position) for position in range(self._length))

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def _read(self, name: str) -> bytes:
        try:
            return self._archive.read(name)
        except KeyError:
            raise DataError(f"{self.path}: has no {name}; the tape is damaged") from None
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
            raise DataError(f"{self.path}, {name}: is damaged ({error})") from error
