"""Runs tests on a model's code, in a process that the code cannot reach.

It is started inside a sandbox. The tests come in by standard input and never touch a file; the code
runs in a child (`code_player`), and is called through a socket. What each test gives goes out as a
line of JSON on standard output, which the child does not have.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import FrameType, ModuleType
from typing import Any

from retrain.reward.hub.code_kinds import KINDS, BrokenTests, Test
from retrain.reward.hub.code_peer import Peer, Unsendable
from retrain.reward.hub.code_player import SOCKET
from retrain.reward.hub.code_values import THEIRS
from retrain.sandbox.namespaces import hide_memory

_AGAIN = 0.5
_FLAGS = ("-s", "-P", "-B", "-S")


class _Late(BaseException):
    """A test has taken too long."""


def main() -> None:
    """Read the tests, and give a line for each."""
    request = json.loads(sys.stdin.buffer.read())
    with suppress(OSError):
        hide_memory()
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGALRM, _late)

    def say(**values: Any) -> None:
        print(json.dumps(values), file=lines, flush=True)

    try:
        tests = KINDS[request["kind"]](request)
        say(tests=len(tests))
        for passed in _results(tests, request):
            say(passed=passed)
    except BrokenTests as broken:
        say(broken=str(broken))


def _results(tests: Sequence[Test], request: Mapping[str, Any]) -> Iterator[bool]:
    """Whether the code passes each test; it is loaded anew where a test left it out of step."""
    player: _Player | None = None
    for test in tests:
        player = player or _Player()
        try:
            passed = _passes(test, player, request)
        except _Late:  # it came while another was dealt with
            passed = False
        yield passed
        if not passed and request["give"] == "all":
            break
        if not player.in_step:
            player.end()
            player = None
    if player is not None:
        player.end()


def _passes(test: Test, player: _Player, request: Mapping[str, Any]) -> bool:
    signal.setitimer(signal.ITIMER_REAL, request["seconds"], _AGAIN)
    try:
        return test(player.load(request.get("prompt", ""), request["code"]))
    except (_Late, SystemExit, Exception) as error:
        if isinstance(error, ImportError | Unsendable) and not hasattr(error, "_remote"):
            raise BrokenTests(f"{type(error).__name__}: {error}") from error
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _late(number: int, frame: FrameType | None) -> None:
    raise _Late


class _Player:
    """The process that holds the code."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._names: dict[str, Any] | None = None
        self._peer = Peer(ours, {"call": _call}, trusting=False)
        folder = json.dumps(sys.path)
        begin = (
            f"import sys; sys.path[:] = {folder}; "
            "from retrain.reward.hub.code_player import main; main()"
        )
        flags = [flag for flag in sys.orig_argv[1:] if flag in _FLAGS]
        with theirs:
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, *flags, "-c", begin],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), SOCKET),
                ],
            )

    @property
    def in_step(self) -> bool:
        """Whether it can be asked again."""
        return self._names is not None and self._peer.in_step

    def load(self, prompt: str, code: str) -> dict[str, Any]:
        """What the code defines; it is run once."""
        if self._names is None:
            self._names = _allowed(self._peer.ask("load", prompt, code))
            module = ModuleType(THEIRS)
            vars(module).update(self._names)
            sys.modules[THEIRS] = module
        return self._names

    def end(self) -> None:
        """End the process."""
        self._peer.connection.close()
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _allowed(names: Any) -> dict[str, Any]:
    """The names of a model's code, but for modules that it calls by another name."""
    return {
        str(name): value
        for name, value in dict(names).items()
        if not isinstance(value, ModuleType) or value.__name__ == name
    }


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)
