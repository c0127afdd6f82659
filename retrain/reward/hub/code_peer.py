"""Two processes that call each other's functions over a socket, one message at a time."""

from __future__ import annotations

import importlib
import json
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from retrain.reward.hub.code_raised import MOST_SAID, exception_class, standard_class, text_of
from retrain.reward.hub.code_remote import Remote, place_of
from retrain.reward.hub.code_values import Packed, pack, unpack
from retrain.reward.hub.frames import read_frame, write_frame

_FROM_ANYWHERE = {"builtins", "math", "operator", "_operator"}


class Unsendable(TypeError):
    """An object that only one side can hold."""


class Peer:
    """One side.

    Args:
        connection: The socket to the other side.
        operations: What the other side may ask for, by name.
        trusting: Whether to keep any object for the other side; else functions only, and a builtin
            function that it names stays there, so that it cannot make us call `exec`.

    Attributes:
        in_step: Whether every question has its answer.
    """

    def __init__(
        self,
        connection: socket.socket,
        operations: Mapping[str, Callable[..., Any]],
        *,
        trusting: bool,
    ) -> None:
        self.connection = connection
        self.in_step = True
        self._operations = operations
        self._trusting = trusting
        self._kept: list[Any] = []
        self._classes: dict[int, type[Exception]] = {}

    def ask(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        """Let the other side do something, and serve it meanwhile.

        Lists, sets and dictionaries among the arguments are changed as the other side changed them.

        Args:
            operation: One of its operations.
            *args: Its arguments.
            **kwargs: More of them.

        Returns:
            What came back; something that is not plain is a `Remote` or an exception class.

        Raises:
            Unsendable: An argument cannot be sent.
            ValueError: The answer is none.
            retrain.reward.hub.frames.Lost: The other side is gone.
            Exception: What the operation raised there, as the nearest standard class.
        """
        self.in_step = False
        self._send({"do": operation, "args": self._pack(args), "kwargs": self._pack(kwargs)})
        while "do" in (answer := self._receive()):
            self.serve(answer)
            self.in_step = False
        self.in_step = True
        if "raised" in answer:
            raise self._exception(answer["raised"])
        for given, after in zip(args, answer.get("after") or [], strict=False):
            _become(given, self._unpack(after))
        return self._unpack(answer.get("value"))

    def serve_forever(self) -> None:
        """Answer the other side until it is gone."""
        while True:
            self.serve(self._receive())

    def serve(self, request: Mapping[str, Any]) -> None:
        """Answer one request."""
        try:
            args = self._unpack(request["args"])
            value = self._operations[request["do"]](*args, **self._unpack(request["kwargs"]))
            answer = {"value": self._pack(value), "after": [*map(self._changed, args)]}
        except BaseException as error:
            if not self._trusting and not isinstance(error, Exception):
                raise
            answer = {"raised": self._described(error)}
        self._send(answer)

    def _changed(self, given: Any) -> Packed:
        changeable = isinstance(given, list | dict | set | deque | bytearray)
        return self._pack(given) if changeable else None

    def _send(self, message: Mapping[str, Any]) -> None:
        write_frame(self.connection, json.dumps(message).encode())

    def _receive(self) -> dict[str, Any]:
        message = json.loads(read_frame(self.connection))
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")
        return message

    def _pack(self, value: Any) -> Packed:
        return pack(value, self._keep)

    def _unpack(self, packed: Packed) -> Any:
        return unpack(packed, self._find)

    def _keep(self, value: Any) -> Packed:
        if isinstance(value, Remote):
            return ["yours", place_of(value)]
        for place, known in self._classes.items():
            if value is known:
                return ["yours", place]
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        named = isinstance(value, BuiltinFunctionType | type) and value.__module__ in _FROM_ANYWHERE
        if not self._trusting and not named and not isinstance(value, FunctionType):
            raise Unsendable(f"{type(value).__name__} objects stay in the tests' process")
        self._kept.append(value)
        place = len(self._kept) - 1
        if named:
            return ["named", place, value.__module__, value.__qualname__]
        if isinstance(value, type) and issubclass(value, Exception):
            return ["class", place, value.__name__, standard_class(value).__name__]
        return ["mine", place]

    def _find(self, packed: Packed) -> Any:
        kind, *content = packed
        if kind == "yours":
            return self._kept[content[0]]
        if kind == "mine":
            return Remote(self, int(content[0]))
        if kind == "class":
            return self._class(int(content[0]), str(content[1]), str(content[2]))
        if kind == "module" and content[0] in sys.stdlib_module_names:
            return importlib.import_module(content[0])
        if kind == "named":
            return self._named(int(content[0]), str(content[1]), str(content[2]))
        raise ValueError(f"no packed value: {kind!r:.40}")

    def _named(self, place: int, module: str, name: str) -> Any:
        """Our own function of that name, or the other side's where we do not trust it."""
        found = getattr(importlib.import_module(module), name) if module in _FROM_ANYWHERE else None
        ours = self._trusting or isinstance(found, type) or module != "builtins"
        return Remote(self, place) if found is None or not ours else found

    def _class(self, place: int, name: str, base: str) -> type[Exception]:
        if place not in self._classes:
            self._classes[place] = type(name, (exception_class(base),), {})
        return self._classes[place]

    def _described(self, error: BaseException) -> dict[str, Any]:
        kind = type(error)
        place = next((i for i, kept in enumerate(self._kept) if kept is kind), None)
        return {"place": place, "base": standard_class(kind).__name__, "say": text_of(error)}

    def _exception(self, described: Mapping[str, Any]) -> Exception:
        known = self._classes.get(described.get("place"))  # type: ignore[arg-type]
        kind = known or exception_class(str(described.get("base")))
        error = kind.__new__(kind)
        error.args = (str(described.get("say"))[:MOST_SAID],)
        error.__dict__["_remote"] = True
        return error


def _become(given: Any, after: Any) -> None:
    """Change an object of ours as its copy was changed."""
    if isinstance(given, list | bytearray) and type(given) is type(after):
        given[:] = after
    elif isinstance(given, dict | set | deque) and type(given) is type(after):
        given.clear()
        extend: Callable[[Any], Any] = getattr(given, "update", None) or given.extend  # type: ignore[union-attr]
        extend(after)
