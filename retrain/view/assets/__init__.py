"""The page: plain HTML, CSS and ES modules, shipped as they are written."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
"""The media type of each kind of file."""


@cache
def asset_names() -> tuple[str, ...]:
    """The files of the page."""
    found = (entry.name for entry in files(__package__).iterdir() if entry.is_file())
    return tuple(sorted(name for name in found if name.endswith(tuple(TYPES))))


def read_asset(name: str) -> str:
    """The text of a file of the page.

    Raises:
        KeyError: There is none of that name.
    """
    if name not in asset_names():
        raise KeyError(name)
    return (files(__package__) / name).read_text(encoding="utf-8")
