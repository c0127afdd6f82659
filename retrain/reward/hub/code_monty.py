"""Runs functions in pydantic-monty, an interpreter that knows a part of Python and nothing outside.

It has no `input`, few modules, and neither files, processes nor network, in a process of its own.
Only values leave it; what they have to be never goes in.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

from retrain.errors import RewardFailure
from retrain.reward.hub.catalogue import require
from retrain.reward.hub.code_outputs import same_value
from retrain.reward.hub.code_running import Judging, Verdict
from retrain.reward.hub.code_tests import Asserts, Calls, Tests

_GRACE = 5.0
_ARGUMENTS = "retrain_arguments"


class _Question(NamedTuple):
    """An expression, values for the names in it, and whether its value is the right one."""

    expression: str
    inputs: dict[str, Any]
    right: Callable[[Any], bool]


def judge_in_monty(source: str, tests: Tests, how: Judging) -> Verdict:
    """Run a program's functions on tests.

    Args:
        source: The program.
        tests: `Calls`, or `Asserts` of the form `assert function(…) == value`.
        how: How to run them; levels and packages mean nothing here.

    Raises:
        MissingDependency: pydantic-monty is not installed.
        RewardFailure: Tests of this kind need all of Python, or the interpreter did not start.
    """
    require("pydantic_monty", "retrain[monty]", what="interpreter: monty")
    monty: Any = import_module("pydantic_monty")
    questions = list(_questions(source, tests, how))
    limits = {"max_feed_duration_secs": how.limits.seconds, "max_memory": how.limits.memory}
    passed, end = 0, time.monotonic() + how.total
    with monty.Monty(request_timeout=how.limits.seconds + _GRACE) as pool:
        for question in questions:
            right = time.monotonic() < end and _right(monty, pool, limits, source, question)
            passed += right
            if how.give == "all" and not right:
                break
    return Verdict(passed, len(questions))


def _right(monty: Any, pool: Any, limits: Any, source: str, question: _Question) -> bool:
    """Whether the answer is right; each question meets a program that has just been loaded."""
    try:
        with pool.checkout(limits=limits) as session:
            session.feed_run(source, print_callback=_ignore)
            value = session.feed_run(
                question.expression, inputs=question.inputs, print_callback=_ignore
            )
            return question.right(value)
    except (monty.MontyDisconnectError, monty.MontyShutdown) as error:
        raise RewardFailure(f"code: pydantic-monty ended: {error}") from error
    except (monty.MontyError, RecursionError, TypeError, ValueError):
        return False


def _questions(source: str, tests: Tests, how: Judging) -> Iterator[_Question]:
    if isinstance(tests, Calls):
        name = tests.entry_point.rpartition(".")[2]
        target = f"Solution().{name}" if "class Solution" in source else name
        if not name.isidentifier():
            raise RewardFailure(f"code: {tests.entry_point!r} is no function's name")
        for args, expected in tests.pairs:
            yield _Question(
                f"{target}(*{_ARGUMENTS})",
                {_ARGUMENTS: args},
                lambda value, expected=expected: same_value(value, expected, how.tolerance),  # type: ignore[misc]
            )
    elif isinstance(tests, Asserts) and not tests.setup:
        yield from map(_assertion, tests.statements)
    else:
        raise RewardFailure(
            "code: interpreter: monty runs functions only: calls (fn_name), and statements of the "
            "form assert function(...) == value"
        )


def _assertion(statement: str) -> _Question:
    try:
        (parsed,) = ast.parse(statement).body
        match parsed:
            case ast.Assert(test=ast.Compare(ast.Call() as call, [ast.Eq()], [value])):
                expected = ast.literal_eval(value)
                return _Question(ast.unparse(call), {}, lambda given: bool(given == expected))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RewardFailure(f"code: a test cannot be run in monty: {error}") from error
    raise RewardFailure(
        "code: interpreter: monty needs statements of the form assert function(...) == value"
    )


def _ignore(*written: Any) -> None:
    """Take what a program prints."""
