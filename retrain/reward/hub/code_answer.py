"""`code`: whether a response's program passes the tests of its task."""

from __future__ import annotations

from typing import Literal

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case, answer_of
from retrain.reward.hub.code_block import last_block
from retrain.reward.hub.code_monty import judge_in_monty
from retrain.reward.hub.code_running import Judging, judge
from retrain.reward.hub.code_tests import first_tests, read_tests
from retrain.sandbox.limits import MEBIBYTE, Level, Limits
from retrain.sandbox.running import Isolation, isolation_level

MOST_CHARACTERS = 100_000
"""The longest program that is run; a longer one is wrong."""

_TAGS = ("python", "python3", "py", "")
_MOST_MEMORY = 4096


def code(
    case: Case,
    *,
    give: Literal["all", "share"] = "all",
    tags: list[str] | None = None,
    most: int | None = None,
    tolerance: float | None = None,
    seconds: float = 6.0,
    total: float = 30.0,
    memory: int = 1024,
    packages: bool = False,
    isolation: Isolation = "best",
    interpreter: Literal["python", "monty"] = "python",
) -> float:
    """1.0 where the last fenced block of the answer passes every test; else 0.0.

    What follows `</think>` counts. No block, an endless loop, a crash or a limit that was hit is a
    wrong program. The tests run in another process than the program, which only ever sees what it
    is called with. What keeps it from the rest of the machine depends on the machine: see
    `retrain.sandbox`.

    Args:
        case: The response; its label, or else its metadata, holds the tests, as APPS, TACO,
            LiveCodeBench, MBPP or HumanEval write them.
        give: "share" for the part of the tests that pass; "all" stops at the first that fails.
        tags: The language tags of the block; None for python, python3, py or none.
        most: How many tests count, from the first; None for all.
        tolerance: By how much numbers may differ, relatively and absolutely; None compares exactly.
            The tests of `assert` statements compare by themselves.
        seconds: How long one test may take.
        total: How long all tests of a program may take; the rest counts as failed.
        memory: MiB that a program may use, at most 4096.
        packages: Whether it may import what is installed beside retrain.
        isolation: "required" refuses to run without namespaces, "none" does not try.
        interpreter: "monty" for pydantic-monty, which knows a part of Python and nothing outside.

    Raises:
        ConfigError: This machine does not have the isolation that is required.
        MissingDependency: pydantic-monty is not installed.
        RewardFailure: A limit is out of range, there are no tests, they are broken, or no program
            could be started.
    """
    tests = first_tests(read_tests(case), most)
    if min(seconds, total) <= 0 or not 0 < memory <= _MOST_MEMORY:
        raise RewardFailure(f"code: seconds and total have to be > 0, memory 1 to {_MOST_MEMORY}")
    source = last_block(answer_of(case), _TAGS if tags is None else tags)
    if source is None or len(source) > MOST_CHARACTERS:
        return 0.0
    limits = Limits(seconds=seconds, memory=memory * MEBIBYTE)
    alone = interpreter == "monty"
    level = Level.LIMITS if alone else isolation_level(isolation)
    how = Judging(limits, level, packages, total, tolerance, give)
    verdict = judge_in_monty(source, tests, how) if alone else judge(source, tests, how)
    if give == "all":
        return float(verdict.passed == verdict.tests)
    return verdict.passed / verdict.tests
