"""Pages of the documentation that are written from the code."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path


def write_page(text: str, default: str) -> None:
    """Write a page to the file that the command line names.

    Args:
        text: The page.
        default: The file where none is named.
    """
    parser = ArgumentParser(description="Write a page of the documentation from the code.")
    parser.add_argument("target", nargs="?", type=Path, default=Path(default))
    target: Path = parser.parse_args().target
    target.write_text(text, encoding="utf-8")
