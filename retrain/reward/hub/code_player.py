"""Holds a model's code in a process of its own, and does with it what the tests' process asks.

It is started inside a sandbox by `code_judge`. Whatever the code does to this process, the tests
are elsewhere: all that leaves here are values.
"""

from __future__ import annotations

import operator
import os
import socket
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from retrain.reward.hub.code_peer import Peer
from retrain.reward.hub.code_values import THEIRS, contents

SOCKET = 3
"""The file descriptor of the socket to the tests."""


def main() -> NoReturn:
    """Serve the tests until they are done."""
    connection = socket.socket(fileno=SOCKET)
    os.set_inheritable(SOCKET, False)
    try:
        Peer(connection, OPERATIONS, trusting=True).serve_forever()
    finally:
        os._exit(1)


def load(prompt: str, code: str) -> dict[str, Any]:
    """Run code as the module `solution`.

    Args:
        prompt: What the code goes on from, or what it may leave out, such as imports; "" for none.
        code: The code.

    Returns:
        What it defines, by name.
    """
    module = ModuleType(THEIRS)
    sys.modules[THEIRS] = module
    whole = not compiles(code) and compiles(prompt + code)
    pieces = [prompt + code] if whole else [prompt if compiles(prompt) else "", code]
    for piece in pieces:
        exec(compile(piece, f"{THEIRS}.py", "exec"), module.__dict__)
    return {name: value for name, value in vars(module).items() if _is_seen(name, value)}


def _is_seen(name: str, value: Any) -> bool:
    """Whether tests see a name; of modules they have their own, from the standard library."""
    if isinstance(value, ModuleType):
        return value.__name__ in sys.stdlib_module_names
    return not name.startswith("__")


def compiles(source: str) -> bool:
    """Whether a text is Python."""
    try:
        compile(source, f"{THEIRS}.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _call(target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return target(*args, **kwargs)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "load": load,
    "call": _call,
    "get": getattr,
    "set": setattr,
    "len": len,
    "iter": iter,
    "next": next,
    "item": operator.getitem,
    "set_item": operator.setitem,
    "str": str,
    "repr": repr,
    "bool": bool,
    "equal": operator.eq,
    "contents": contents,
}
"""What the tests may ask for."""
