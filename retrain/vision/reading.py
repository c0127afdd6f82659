"""Files become pictures: bounded, complete, RGB."""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from retrain.errors import DataError, MissingDependency
from retrain.images import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_FETCH_SECONDS = 60.0

_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, struct.error)
"""What Pillow raises over files that are no images, and over torn ones and their metadata."""


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What images may be.

    Attributes:
        allow_urls: Whether images may be fetched from the network.
        max_bytes: Most bytes of a file.
        max_pixels: Most pixels of an image, width x height, before it is resized.
    """

    allow_urls: bool = False
    max_bytes: int = 20_000_000
    max_pixels: int = 33_000_000


def read_picture(source: str, limits: ImageLimits) -> Any:
    """Read an image whole.

    Args:
        source: A path, or a URL where `limits` allow it.
        limits: What it may be.

    Returns:
        An RGB picture of Pillow; what was transparent is white, and of an animation it is the first
        frame.

    Raises:
        DataError: Naming the image, and what is wrong with it.
        MissingDependency: Pillow is not installed.
    """
    pillow, ops = _pillow()
    opened = _opened(source, _bytes(source, limits), limits)
    try:
        with warnings.catch_warnings(action="ignore"):
            opened.load()
            upright = ops.exif_transpose(opened)
            if not upright.has_transparency_data:
                return upright.convert("RGB")
            layered = upright.convert("RGBA")
            white = pillow.new("RGBA", layered.size, (255, 255, 255, 255))
            return pillow.alpha_composite(white, layered).convert("RGB")
    except _DAMAGED as error:
        raise DataError(f"{source}: the image is damaged ({error})") from error


def check_image(source: str, limits: ImageLimits) -> None:
    """See from an image's head, without decoding it, whether it can be used.

    A URL is not fetched.

    Raises:
        DataError: Naming the image, and what is wrong with it.
        MissingDependency: Pillow is not installed.
    """
    if Image(source).is_url:
        _require_urls(source, limits)
        return
    _opened(source, Path(source), limits).close()


def _opened(source: str, file: Path | bytes, limits: ImageLimits) -> Any:
    pillow, _ = _pillow()
    if isinstance(file, Path):
        _require_size(source, _size(file), limits)
    try:
        with warnings.catch_warnings(action="ignore"):
            found = pillow.open(BytesIO(file) if isinstance(file, bytes) else file, formats=FORMATS)
    except pillow.DecompressionBombError as error:
        raise DataError(f"{source}: the image is too large ({error})") from error
    except _DAMAGED as error:
        raise DataError(
            f"{source}: is no image ({type(error).__name__}); it must be a {', '.join(FORMATS)} "
            "file"
        ) from error
    width, height = found.size
    if width * height > limits.max_pixels:
        raise DataError(
            f"{source}: has {width} x {height} = {width * height:,} pixels, more than the "
            f"{limits.max_pixels:,} allowed; make it smaller, or raise rendering.images.max_pixels"
        )
    return found


def _bytes(source: str, limits: ImageLimits) -> bytes:
    if Image(source).is_url:
        _require_urls(source, limits)
        return _fetched(source, limits)
    path = Path(source)
    _require_size(source, _size(path), limits)
    return path.read_bytes()


def _size(path: Path) -> int:
    try:
        if path.is_file():
            return path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    raise DataError(f"{path}: no such image file")


def _require_size(source: str, size: int, limits: ImageLimits) -> None:
    if size > limits.max_bytes:
        raise DataError(
            f"{source}: has {size:,} bytes, more than the {limits.max_bytes:,} allowed; make it "
            "smaller, or raise rendering.images.max_bytes"
        )


def _require_urls(source: str, limits: ImageLimits) -> None:
    if not limits.allow_urls:
        raise DataError(
            f"{source}: images from the network are off, since they change and fail while a run "
            "goes on; download them, or set rendering.images.allow_urls: true"
        )


def _fetched(url: str, limits: ImageLimits) -> bytes:
    from http.client import HTTPException

    try:
        with _opener().open(url, timeout=_FETCH_SECONDS) as answer:
            data: bytes = answer.read(limits.max_bytes + 1)
    except (OSError, HTTPException, ValueError) as error:
        raise DataError(f"{url}: the image cannot be fetched ({error})") from error
    _require_size(url, len(data), limits)
    return data


def _opener() -> Any:
    """Opens URLs of http and https alone, also where it is sent on: urllib's own follows to ftp."""
    from urllib import request

    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image as pillow
        from PIL import ImageOps as ops
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "images are read with Pillow; install it with: pip install 'retrain[images]'"
        ) from error
    return pillow, ops
