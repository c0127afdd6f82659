"""`Image`: a picture that a message shows; what it is made of is read when it is used.

Nothing of it but its name stands in traces, tapes and checkpoints. Pictures that an environment
makes become files, named by their content, so that what is written down can be played again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

PLACEHOLDER = "<image>"
"""Where an image stands in a message's content; without one, images stand before the text."""

FOLDER_VARIABLE = "RETRAIN_IMAGES"
"""The environment variable that names the folder of pictures that were made in memory."""

_SUFFIXES = (
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"\xff\xd8\xff", ".jpg"),
    (b"RIFF", ".webp"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
)


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that a message shows.

    Attributes:
        source: The path of a file, or a URL.
    """

    source: str

    @property
    def is_url(self) -> bool:
        """Whether it must be fetched from the network."""
        return self.source.startswith(("http://", "https://"))

    @classmethod
    def of_bytes(cls, data: bytes) -> Image:
        """A picture in memory: written to a file that is named by its content, once.

        Args:
            data: A whole PNG, JPEG, WebP, GIF or BMP file.

        Raises:
            ValueError: It begins like none of them.
        """
        suffix = next((end for start, end in _SUFFIXES if data.startswith(start)), None)
        if suffix is None:
            raise ValueError(
                f"{len(data)} bytes that begin with {data[:8]!r} are no PNG, JPEG, WebP, GIF or BMP"
            )
        file = image_folder() / f"{hashlib.sha256(data).hexdigest()}{suffix}"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(file, data)
        return cls(str(file))

    @classmethod
    def of(cls, value: Any) -> Image:
        """Read a picture as people write one.

        Args:
            value: An `Image`, a path, a URL, a `data:` URI, bytes, a picture of Pillow, or a
                mapping with one of "path", "url", "bytes", "image", "image_url" (Hugging Face's
                and OpenAI's forms).

        Raises:
            ValueError: It is none.
        """
        if isinstance(value, Image):
            return value
        if isinstance(value, Path):
            return cls(str(value))
        if isinstance(value, str) and value:
            return cls.of_bytes(_of_data_uri(value)) if value.startswith("data:") else cls(value)
        if isinstance(value, bytes | bytearray):
            return cls.of_bytes(bytes(value))
        if isinstance(value, Mapping):
            return _of_mapping(value)
        if hasattr(value, "save") and hasattr(value, "convert"):
            written = BytesIO()
            value.save(written, format="PNG")
            return cls.of_bytes(written.getvalue())
        raise ValueError(
            f"an image is a path, bytes, a data: URI or a URL, not {type(value).__name__}"
        )


def image_folder() -> Path:
    """Where pictures go that were made in memory: $RETRAIN_IMAGES, else the user's cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "retrain" / "images"


def read_images(value: Any, base: Path | None = None) -> tuple[Image, ...]:
    """Read the pictures of a row or of a message.

    Args:
        value: A list of what `Image.of` reads, or one of it; None is no picture.
        base: What relative paths are relative to; None leaves them.

    Raises:
        ValueError: Naming which of them is wrong.
    """
    if value is None:
        return ()
    several = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
    images: list[Image] = []
    for number, item in enumerate(value if several else [value]):
        try:
            image = Image.of(item)
        except ValueError as error:
            raise ValueError(f"image {number}: {error}") from error
        inside = base is not None and not image.is_url
        images.append(Image(str((base or Path()) / image.source)) if inside else image)
    return tuple(images)


def _write_whole(file: Path, data: bytes) -> None:
    """Write a file under a name that no other writer has, as many draw one picture at a time."""
    descriptor, partial = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.")
    try:
        with open(descriptor, "wb") as written:
            written.write(data)
        Path(partial).chmod(0o644)
        os.replace(partial, file)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _of_mapping(value: Mapping[str, Any]) -> Image:
    for key in ("bytes", "path", "url", "image", "image_url"):
        if value.get(key):
            return Image.of(value[key])
    raise ValueError(f"an image object has path, bytes or url, not {', '.join(map(str, value))}")


def _of_data_uri(uri: str) -> bytes:
    head, _, body = uri.partition(",")
    with suppress(binascii.Error, ValueError):
        if head.endswith(";base64"):
            return base64.b64decode(body, validate=True)
    raise ValueError(f"{head[:40]!r} is no data URI in base64")
