"""Stands for objects that are in another process, and trusts them with nothing."""

from __future__ import annotations

from typing import Any, Protocol

_SHOWN = {"__name__", "__doc__", "__qualname__"}


class Asker(Protocol):
    """Lets another process do something."""

    def ask(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        """Do it, and give what came of it."""


class Remote:
    """Stands for an object of the other side.

    It gives what the other object holds: attributes, items, length, text, what calling it returns.
    It does not let that object take part in a comparison with one of ours, or count as a number:
    one that claims to equal everything would pass every test.
    """

    def __init__(self, peer: Asker, place: int) -> None:
        object.__setattr__(self, "_peer", peer)
        object.__setattr__(self, "_place", place)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in _SHOWN:
            raise AttributeError(name)
        return _ask(self, "get", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "set", name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the other object returns when it is called."""
        return _ask(self, "call", *args, **kwargs)

    def __len__(self) -> int:
        return int(_ask(self, "len"))

    def __iter__(self) -> Any:
        return _ask(self, "iter")

    def __next__(self) -> Any:
        return _ask(self, "next")

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "item", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask(self, "set_item", key, value)

    def __str__(self) -> str:
        return str(_ask(self, "str"))

    def __repr__(self) -> str:
        return str(_ask(self, "repr"))

    def __bool__(self) -> bool:
        return _ask(self, "bool") is True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Remote):
            return _ask(self, "equal", other) is True
        contents = _ask(self, "contents")
        return type(contents) is not Remote and bool(contents == other)

    __hash__ = object.__hash__


def _ask(remote: Remote, operation: str, *args: Any, **kwargs: Any) -> Any:
    peer: Asker = object.__getattribute__(remote, "_peer")
    return peer.ask(operation, remote, *args, **kwargs)


def place_of(remote: Remote) -> int:
    """Where the other side keeps the object."""
    place: int = object.__getattribute__(remote, "_place")
    return place
