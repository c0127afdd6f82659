"""Runs the suite in another process, and in a new one where an environment hangs or ends it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import IO, Any

import retrain.testing
from retrain.errors import ConfigError, RetrainError
from retrain.testing.checking.findings import Check, Ended, Outcome, checks, of_all_agents
from retrain.testing.checking.subject import Subject, agents_of

SECONDS = 30.0
"""How long one scripted episode may take."""

_BEGIN = 120.0
"""How long the process may take to begin."""

GIVE_UP = 5
"""After so many tests that hang or end the process, the rest is not run."""

_ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
_LOST = "not run: other episodes did not end"


@dataclass
class _Progress:
    """What the processes have told so far.

    Attributes:
        promises: Every test's name and what it promises.
        ended: How each test ended, by its node id.
        running: The node id of the test that runs now.
        scripts: The scripts that hung, or ended the process.
        finished: Whether all that is left has run.
    """

    promises: dict[str, str] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)
    running: str | None = None
    scripts: set[str] = field(default_factory=set)
    finished: bool = False

    def take(self, event: dict[str, Any]) -> None:
        """Note one line of a process.

        Raises:
            ConfigError: The environment cannot be made.
        """
        if "promises" in event:
            self.promises = event["promises"]
        elif "wrong" in event:
            raise ConfigError(event["wrong"])
        elif "finished" in event:
            self.finished = True
        elif "start" in event:
            self.running = event["start"]
        else:
            self.end(event["end"], Outcome(event["outcome"]), event["text"])

    def end(self, test: str, outcome: Outcome, text: str) -> None:
        """Note how a test ended; of two reports the worse one stays."""
        self.running = None
        known = self.ended.get(test)
        if known is None or known.outcome is not Outcome.BROKEN:
            name, _, script = test.rpartition("::")[2].partition("[")
            self.ended[test] = Ended(name, script.removesuffix("]"), outcome, text)

    def lose(self, test: str, fault: str) -> None:
        """Note that a test took its process with it."""
        self.end(test, Outcome.BROKEN, fault)
        self.scripts |= {self.ended[test].script} - {""}

    def checks(self) -> tuple[Check, ...]:
        """Every promise; those of which no test has run are skipped."""
        seen = {one.test for one in self.ended.values()}
        lost = [Ended(test, "", Outcome.SKIPPED, _LOST) for test in self.promises.keys() - seen]
        return checks(self.promises, [*self.ended.values(), *lost])


def check_environment(subject: Subject, *, seconds: float = SECONDS) -> tuple[Check, ...]:
    """Play short episodes with canned actions, and say which promises hold.

    Of several agents each is played in its turn, while the others give the subject's answer.

    Args:
        subject: The environment.
        seconds: How long one test may take.

    Returns:
        One check for each promise, in the suite's order.

    Raises:
        ConfigError: There is no such environment, or it cannot be made or called.
        DataError: The tasks cannot be read.
        MissingDependency: pytest, jinja2 or a package of the environment is not installed.
        RetrainError: The process that plays ended before it could play.
    """
    _ = retrain.testing.EnvironmentSuite
    agents = agents_of(subject)
    if not agents:
        return _check(subject, seconds)
    found = {agent: _check(replace(subject, agent=agent), seconds) for agent in agents}
    return of_all_agents(found)


def _check(subject: Subject, seconds: float) -> tuple[Check, ...]:
    """Run the suite, in as many processes as it takes."""
    progress = _Progress()
    for _ in range(GIVE_UP):
        fault = _run(subject, progress, seconds)
        if fault is None:
            break
        if progress.running is None:
            raise RetrainError(f"the check of {subject.environment} did not begin: {fault}")
        progress.lose(progress.running, fault)
    return progress.checks()


def _run(subject: Subject, progress: _Progress, seconds: float) -> str | None:
    """Run what is left of the suite; say what ended it early, if anything did."""
    reader, writer = os.pipe()
    given = {
        "subject": asdict(subject),
        "done": sorted(progress.ended),
        "scripts": sorted(progress.scripts),
    }
    with tempfile.TemporaryFile() as noise, os.fdopen(reader, encoding="utf-8") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.child", str(writer)],
            stdin=subprocess.PIPE,
            stdout=noise,
            stderr=noise,
            pass_fds=[writer],
            start_new_session=True,
            env={**os.environ, **_ALONE, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        os.close(writer)
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(given).encode())
            process.stdin.close()
            for event in _events(told, seconds):
                progress.take(event)
                if progress.finished:
                    return None
            code = process.wait(seconds)
        except (TimeoutError, subprocess.TimeoutExpired):
            return f"it did not end within {seconds if progress.running else _BEGIN:g} s"
        finally:
            _end(process)
        return f"it ended the process, with exit code {code}{_tail(noise)}"


def _events(told: IO[str], seconds: float) -> Iterator[dict[str, Any]]:
    """The lines of a process as they come.

    Raises:
        TimeoutError: The first one took longer than `_BEGIN`, or a later one than `seconds`.
    """
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in told:
            lines.put(line)
        lines.put(None)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    patience = _BEGIN
    while True:
        try:
            line = lines.get(timeout=patience)
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            return
        yield json.loads(line)
        patience = seconds


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(noise: IO[bytes]) -> str:
    noise.seek(0)
    lines = noise.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""
