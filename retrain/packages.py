"""Where packages would be imported from; nothing is imported to find out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path


def package_folders(name: str, path: Sequence[str] | None = None) -> list[Path]:
    """Where `import NAME` would find a top-level package.

    What has been imported already does not count. `pip install -e` may register a finder of its
    own, so all finders are asked, in their order.

    Args:
        name: The package.
        path: The import path to look along; None looks as this process imports.

    Returns:
        Its folder; several for a namespace package; none where it cannot be found.
    """
    finders = sys.meta_path if path is None else [PathFinder]
    found = (finder.find_spec(name, path) for finder in finders)
    spec = next((spec for spec in found if spec is not None), None)
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [Path(location) for location in spec.submodule_search_locations]
