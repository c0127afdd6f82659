"""Which folders new weights may come from, and what the weights of a server are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from retrain.engine.server_errors import RequestRefused
from retrain.errors import ConfigError


class WeightFolders:
    """The folders in which trainers leave weights for this server."""

    def __init__(self, allowed: Sequence[Path]) -> None:
        """Take the folders; what stands in them and below them may be loaded.

        Raises:
            ConfigError: One of them is a file.
        """
        for folder in allowed:
            if folder.exists() and not folder.is_dir():
                raise ConfigError(f"--weights-dir {folder}: is a file, expected a folder")
        self._allowed = tuple(folder.resolve() for folder in allowed)

    def resolve(self, path: str) -> Path:
        """The folder that a request names, links followed.

        Raises:
            RequestRefused: It is not allowed, or is no folder.
        """
        if "\0" in path:
            raise RequestRefused("model_path: holds a null character")
        folder = Path(path).resolve()
        if not any(folder.is_relative_to(allowed) for allowed in self._allowed):
            names = ", ".join(str(allowed) for allowed in self._allowed) or "none"
            raise RequestRefused(
                f"model_path: {path} is in none of the folders that weights are loaded from "
                f"({names}); start the server with --weights-dir"
            )
        if not folder.is_dir():
            raise RequestRefused(f"model_path: {path} is no folder")
        return folder


class WeightVersions:
    """What the weights are called, and were called before.

    Attributes:
        current: The name of those that are loaded.
    """

    def __init__(self, first: str) -> None:
        """Begin with the weights that the server was started with."""
        self.current = first
        self._used = {first}

    def next_after(self, asked: str | None) -> str:
        """The name of new weights: the one asked for, else one that was never used."""
        if asked is not None:
            return asked
        number = len(self._used)
        while f"update-{number}" in self._used:
            number += 1
        return f"update-{number}"

    def take(self, name: str, *, changed: bool) -> str:
        """Make a name the current one.

        Args:
            name: The name.
            changed: Whether the weights differ from those before.

        Returns:
            A warning where other weights had the name before, else "".
        """
        reused = name in self._used and (changed or name != self.current)
        self.current = name
        self._used.add(name)
        return f"Warning: other weights have been called {name!r} before." if reused else ""
