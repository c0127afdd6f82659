"""The process that runs the suite: `python -m retrain.testing.checking.child FD`.

It reads a JSON object from standard input (`subject`, the tests that are `done`, and the `scripts`
to leave out), and writes a JSON object a line to the file descriptor: the `promises` of all tests,
then each test's `start` and `end`, and that it has `finished`; or what is `wrong` with the
environment's arguments or tools, so that there is nothing to play.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from retrain.errors import ConfigError
from retrain.testing.checking import suite
from retrain.testing.checking.findings import Outcome
from retrain.testing.checking.subject import Subject

_OPTIONS = ("-p", "no:terminal", "-p", "no:cacheprovider", "--noconftest", "-c", os.devnull)
_OUTCOMES = {"passed": Outcome.HELD, "failed": Outcome.BROKEN, "skipped": Outcome.SKIPPED}


class Teller:
    """A pytest plugin that tells another process what happens.

    Args:
        tell: Sends one line.
        done: The tests, by their node id, that have ended before.
        scripts: The scripts that are not to be played.
    """

    def __init__(
        self, tell: Callable[[dict[str, Any]], None], done: Sequence[str], scripts: Sequence[str]
    ) -> None:
        self._tell = tell
        self._done = frozenset(done)
        self._scripts = frozenset(scripts)

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Tell what there is to run, and leave out what is done."""
        self._tell({"promises": {item.originalname: _first_line(item.function) for item in items}})
        items[:] = [
            item
            for item in items
            if item.nodeid not in self._done and _script(item) not in self._scripts
        ]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell which test begins."""
        self._tell({"start": nodeid})

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """Tell what makes the environment unusable: a tool that cannot be described, say."""
        if call.excinfo is not None and isinstance(call.excinfo.value, ConfigError):
            self._tell({"wrong": str(call.excinfo.value)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell how a test ended: once, or twice where its clean-up fails too."""
        if report.when == "call" or not report.passed:
            outcome = _OUTCOMES[report.outcome]
            self._tell({"end": report.nodeid, "outcome": outcome, "text": _text(report)})


def _script(item: pytest.Function) -> str | None:
    return item.callspec.id if hasattr(item, "callspec") else None


def _first_line(function: Any) -> str:
    return (function.__doc__ or "").partition("\n")[0]


def _text(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.longreprtext.rstrip()


def main() -> None:
    """Run the suite."""
    given = json.load(sys.stdin)
    suite.prepare(Subject(**given["subject"]))
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1) as pipe:

        def tell(event: dict[str, Any]) -> None:
            pipe.write(json.dumps(event) + "\n")

        pytest.main([suite.__file__, *_OPTIONS], [Teller(tell, given["done"], given["scripts"])])
        tell({"finished": True})


if __name__ == "__main__":
    main()
