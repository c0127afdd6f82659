"""Registries: a name in the configuration to an object, loaded only when it is asked for.

`Registry.get` accepts, in this order,

1. a registered name: by `@registry.register("name")` or `registry.add_lazy("name", "module:Name")`,
2. an import path `package.module:Attribute`; a file in the working directory counts,
3. the name of an entry point of the registry's group, so that other packages can plug in.

Everything else is one `ConfigError` that names the nearest known name.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from retrain.errors import ConfigError, MissingDependency, nearest

T = TypeVar("T")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class LazyRow:
    """Where an object lives, and how to install what it needs.

    Attributes:
        target: `package.module:Attribute`.
        install: The exact command that installs what `target` imports; "" where nothing is needed.
    """

    target: str
    install: str = ""


class Registry(Generic[T]):
    """Names of one kind of thing.

    Args:
        kind: What it holds, in the singular, for error messages ("environment").
        entry_point_group: The group under which other packages plug in; None for none.
    """

    def __init__(self, kind: str, entry_point_group: str | None = None) -> None:
        self.kind = kind
        self.entry_point_group = entry_point_group
        self._objects: dict[str, T] = {}
        self._lazy: dict[str, LazyRow] = {}

    def register(self, name: str) -> Callable[[F], F]:
        """Register the decorated class or function as `name`.

        Raises:
            ConfigError: Something else already has that name.
        """

        def decorate(thing: F) -> F:
            row = self._lazy.get(name)
            if row is not None and row.target != _path_of(thing):
                raise ConfigError(f"{self.kind} {name!r} is already taken by {row.target}")
            known = self._objects.get(name)
            if known is not None and _path_of(known) != _path_of(thing):
                raise ConfigError(f"{self.kind} {name!r} is already taken by {_path_of(known)}")
            self._objects[name] = cast(T, thing)
            return thing

        return decorate

    def add_lazy(self, name: str, target: str, install: str = "") -> None:
        """Register `name` without importing it.

        Args:
            name: The name.
            target: `package.module:Attribute`.
            install: The command that installs what it needs, e.g. "pip install 'retrain[trl]'".

        Raises:
            ConfigError: Something else already has that name.
        """
        row = LazyRow(target, install)
        if name in self._objects or self._lazy.get(name, row) != row:
            raise ConfigError(f"{self.kind} {name!r} is already taken")
        self._lazy[name] = row

    def get(self, name_or_path: str) -> T:
        """The object of a registered name, an import path or an entry point.

        Raises:
            ConfigError: Nothing of that name, or it cannot be imported.
            MissingDependency: It needs a package that is not installed.
        """
        if name_or_path in self._objects:
            return self._objects[name_or_path]
        if name_or_path in self._lazy:
            thing = self._load_lazy(name_or_path, self._lazy[name_or_path])
        elif ":" in name_or_path:
            allow_working_directory()
            thing = load_object(name_or_path, f"{self.kind} {name_or_path!r}")
        elif (entry_point := self._entry_points().get(name_or_path)) is not None:
            row = LazyRow(entry_point.value)
            thing = self._load_lazy(name_or_path, row)
        else:
            raise ConfigError(self._unknown(name_or_path))
        return cast(T, thing)

    def names(self) -> tuple[str, ...]:
        """Every known name, sorted: registered, lazy and of installed entry points."""
        return tuple(sorted({*self._objects, *self._lazy, *self._entry_points()}))

    def __contains__(self, name: object) -> bool:
        return name in self._objects or name in self._lazy or name in self._entry_points()

    def _entry_points(self) -> dict[str, EntryPoint]:
        if self.entry_point_group is None:
            return {}
        return {point.name: point for point in entry_points(group=self.entry_point_group)}

    def _load_lazy(self, name: str, row: LazyRow) -> object:
        try:
            return load_object(row.target, f"{self.kind} {name!r}")
        except MissingDependency as error:
            if not row.install:
                raise
            raise MissingDependency(f"{error}; install it with: {row.install}") from error

    def _unknown(self, name: str) -> str:
        message = f"unknown {self.kind} {name!r}"
        if "." in name:
            module, _, attribute = name.rpartition(".")
            return f"{message}: write an import path with a colon, {module}:{attribute}"
        return f"{message}: {nearest(name, self.names())} (or an import path, package.module:Name)"


def allow_working_directory() -> None:
    """Let import paths name files in the working directory, as a script run there could."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def load_object(path: str, what: str) -> object:
    """Import the object that `package.module:Attribute` names.

    Args:
        path: The import path; the attribute may be nested (`module:Outer.Inner`).
        what: What is being loaded, for error messages ("environment 'a:B'").

    Raises:
        ConfigError: The path is malformed, or names nothing, or importing it raised.
        MissingDependency: The module exists and imports a package that is not installed.
    """
    module_name, _, attribute = path.partition(":")
    if not _is_dotted_name(module_name) or not _is_dotted_name(attribute):
        raise ConfigError(f"{what}: {path!r} is not an import path; write package.module:Attribute")
    thing: Any = _import_module(module_name, what)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            known = _defined_in(thing, module_name)
            raise ConfigError(f"{what}: {module_name} has no {attribute!r}; {nearest(part, known)}")
        thing = getattr(thing, part)
    return cast(object, thing)


def _import_module(name: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            raise ConfigError(
                f"{what}: no module named {missing!r}; it must be installed, or be a file or "
                f"folder in the working directory {Path.cwd()}"
            ) from error
        raise MissingDependency(
            f"{what}: {name} imports {missing!r}, which is not installed"
        ) from error
    except Exception as error:  # importing runs somebody else's code, which may raise anything
        raise ConfigError(
            f"{what}: importing {name} failed at {_place_of(error)}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _is_dotted_name(text: str) -> bool:
    return bool(text) and all(part.isidentifier() for part in text.split("."))


def _path_of(thing: object) -> str:
    return f"{getattr(thing, '__module__', '?')}:{getattr(thing, '__qualname__', repr(thing))}"


def _defined_in(thing: object, module_name: str) -> list[str]:
    """The public names that a module or class defines, those that it imports left out."""
    return [
        name
        for name, value in vars(thing).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module_name
    ]


def _place_of(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}, line {frame.lineno}"
