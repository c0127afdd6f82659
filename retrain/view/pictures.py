"""`Pictures`: the images that an episode shows, read where they may be read.

A run folder may come from anybody, and its rows name files. Only what lies in the run folder, among
the pictures that retrain made, or in a folder that the viewer was told of is read, and only what
begins as a picture does. Nothing is fetched from the network.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from retrain.errors import DataError
from retrain.images import image_folder

LARGEST = 20_000_000
"""Bytes of a picture that is shown, as `rendering.images.max_bytes` is by default."""

_LONGEST_NAME = 300
_HEAD = 16
_ID_DIGITS = 16
_OPENING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as a browser takes it.

    Attributes:
        data: The file's bytes.
        kind: Its media type, such as "image/png".
    """

    data: bytes
    kind: str

    @property
    def uri(self) -> str:
        """The picture as a `data:` URI."""
        return f"data:{self.kind};base64,{base64.b64encode(self.data).decode('ascii')}"


class Pictures:
    """What may be shown of the images that the rows of a run name."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Say where images may lie.

        Args:
            folders: The run folder, and those that somebody named; pictures that retrain made
                may be shown whatever they are.
        """
        self._folders = tuple(folder.resolve() for folder in (*folders, image_folder()))

    def document(self, source: str) -> dict[str, Any]:
        """What the page is told of an image: its name, its id, and why it is not shown, if so."""
        try:
            with self._opened(source):
                why = None
        except DataError as error:
            why = str(error)
        return {"name": source[:_LONGEST_NAME], "id": picture_id(source), "why": why}

    def read(self, source: str) -> Picture:
        """Read an image.

        Args:
            source: As a row names it: a path, a `data:` URI, or an address.

        Raises:
            DataError: It is not shown; the message says why.
        """
        with self._opened(source) as (file, kind):
            data = file.read(LARGEST + 1)
        _require_small(len(data))
        return Picture(data, kind)

    @contextmanager
    def _opened(self, source: str) -> Iterator[tuple[BinaryIO, str]]:
        """An image's file, and its media type.

        Raises:
            DataError: It is not shown.
        """
        if source.startswith(("http://", "https://")):
            raise DataError("is not fetched: the viewer asks no other machine")
        with _of_uri(source) if source.startswith("data:") else self._file(source) as file:
            kind = picture_kind(file.read(_HEAD))
            if kind is None:
                raise DataError("begins like no PNG, JPEG, WebP, GIF or BMP")
            file.seek(0)
            yield file, kind

    def _file(self, source: str) -> BinaryIO:
        try:
            path = Path(source).resolve()
        except (OSError, ValueError, RuntimeError) as error:  # a null byte; links in a circle
            raise DataError(f"cannot be read: {error}") from error
        if not any(path.is_relative_to(folder) for folder in self._folders):
            raise DataError(
                "lies outside the run folder; retrain view --images FOLDER shows what is in its "
                "folder too"
            )
        try:
            return _regular(open(path, "rb", opener=lambda name, _: os.open(name, _OPENING)))
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}") from error


def _regular(file: BinaryIO) -> BinaryIO:
    """A file as it is, if it is an ordinary one of bearable size; else it is closed."""
    found = os.fstat(file.fileno())
    try:
        if not stat.S_ISREG(found.st_mode):
            raise DataError("is no file")
        _require_small(found.st_size)
    except DataError:
        file.close()
        raise
    return file


def picture_id(source: str) -> str:
    """A short name for an image, by what its row calls it."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_DIGITS]


def picture_kind(head: bytes) -> str | None:
    """The media type of a file that begins so; None where it is none of those that are shown."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return "image/bmp" if head[:2] == b"BM" and head[6:10] == bytes(4) else None


def _of_uri(uri: str) -> BinaryIO:
    head, _, body = uri.partition(",")
    _require_small(len(body) * 3 // 4)
    try:
        if head.endswith(";base64"):
            return BytesIO(base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError):
        pass
    raise DataError("is no data: URI in base64")


def _require_small(size: int) -> None:
    if size > LARGEST:
        raise DataError(f"has {size / 1e6:,.0f} MB; at most {LARGEST / 1e6:,.0f} are shown")
