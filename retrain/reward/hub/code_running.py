"""Runs a program on tests, in a sandbox; each test passes or does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import retrain
from retrain.errors import RewardFailure
from retrain.reward.hub.code_outputs import same_output
from retrain.reward.hub.code_tests import Asserts, Calls, Outputs, Script, Tests
from retrain.sandbox.limits import Finished, Level, Limits, Program
from retrain.sandbox.running import run_isolated

_PACKAGE = Path(retrain.__file__).resolve().parent
_JUDGE = (
    f"import sys; sys.path.append({str(_PACKAGE.parent)!r}); "
    "from retrain.reward.hub.code_judge import main; main()"
)
_MAIN = "main.py"
_BIRTH_SECONDS = 2.0
_KINDS = {Calls: "calls", Asserts: "asserts", Script: "script"}


@dataclass(frozen=True, slots=True)
class Judging:
    """How tests are run.

    Attributes:
        limits: What one test may use.
        level: How the program is kept apart.
        packages: Whether it may import what is installed.
        total: Seconds for all tests.
        tolerance: By how much numbers may differ; None compares exactly.
        give: "all" stops at the first test that fails.
    """

    limits: Limits
    level: Level
    packages: bool
    total: float
    tolerance: float | None
    give: Literal["all", "share"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a program gets.

    Attributes:
        passed: How many tests it passes.
        tests: How many there are; with `give: all` the ones after a failure are not run.
    """

    passed: int
    tests: int


def judge(source: str, tests: Tests, how: Judging) -> Verdict:
    """Run a program on its tests.

    Args:
        source: The program.
        tests: The tests.
        how: How to run them.

    Raises:
        RewardFailure: The tests are broken, or the program could not be started.
    """
    if isinstance(tests, Outputs):
        return _by_output(source, tests, how)
    return _by_calls(source, tests, how)


def _by_output(source: str, tests: Outputs, how: Judging) -> Verdict:
    passed, left = 0, how.total
    for stdin, expected in tests.pairs:
        limits = replace(
            how.limits,
            seconds=min(how.limits.seconds, left),
            output=max(how.limits.output, 2 * len(expected.encode(errors="replace"))),
        )
        program = Program((_MAIN,), stdin, {_MAIN: source}, packages=how.packages)
        finished = run_isolated(program, limits, how.level)
        left -= finished.seconds
        right = finished.code == 0 and same_output(finished.stdout, expected, how.tolerance)
        passed += right
        if left <= 0 or (how.give == "all" and not right):
            break
    return Verdict(passed, len(tests.pairs))


def _by_calls(source: str, tests: Calls | Asserts | Script, how: Judging) -> Verdict:
    request = {
        "kind": _KINDS[type(tests)],
        **asdict(tests),
        "code": source,
        "seconds": how.limits.seconds,
        "tolerance": how.tolerance,
        "give": how.give,
    }
    program = Program(
        ("-c", _JUDGE), json.dumps(request), read=(str(_PACKAGE),), packages=how.packages
    )
    limits = replace(how.limits, seconds=how.total + _BIRTH_SECONDS)
    return _verdict(run_isolated(program, limits, how.level))


def _verdict(finished: Finished) -> Verdict:
    said: list[dict[str, Any]] = list(_lines(finished.stdout))
    for line in said:
        if "broken" in line:
            raise RewardFailure(f"code: the tests cannot be run: {line['broken']}")
    count = next((line["tests"] for line in said if "tests" in line), None)
    if count is None:
        reason = finished.stopped or f"exit code {finished.code}: {finished.stderr.strip()[-500:]}"
        raise RewardFailure(f"code: the tests did not begin: {reason}")
    return Verdict(sum(line.get("passed") is True for line in said), count)


def _lines(text: str) -> Iterator[dict[str, Any]]:
    """Whole lines; a process that was ended may leave half of one."""
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)
