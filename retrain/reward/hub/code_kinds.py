"""What a request for tests means: each kind becomes a list of functions that run one test."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from retrain.reward.hub.code_outputs import same_value
from retrain.reward.hub.code_player import compiles

Test: TypeAlias = Callable[[dict[str, Any]], bool]
"""Whether the code passes; it is given what the code defines."""


class BrokenTests(Exception):
    """The tests themselves cannot be run."""


def _calls(request: Mapping[str, Any]) -> list[Test]:
    """Calls of one function with the values that it has to return."""

    def test(args: Sequence[Any], expected: Any) -> Test:
        def passes(names: dict[str, Any]) -> bool:
            value = _function(names, request["entry_point"])(*args)
            return same_value(value, expected, request["tolerance"])

        return passes

    return [test(args, expected) for args, expected in request["pairs"]]


def _asserts(request: Mapping[str, Any]) -> list[Test]:
    """Statements that must not raise, each by itself."""
    codes = [_compiled(text, f"test {i}") for i, text in enumerate(request["statements"])]
    scope = _Scope(request, "\n".join(request["statements"]))
    setup = _compiled(request["setup"], "the tests' setup")

    def test(code: Any) -> Test:
        def passes(names: dict[str, Any]) -> bool:
            namespace = scope.names(names)
            exec(setup, namespace)
            exec(code, namespace)
            return True

        return passes

    return [test(code) for code in codes]


def _script(request: Mapping[str, Any]) -> list[Test]:
    """A script that defines `check(candidate)`, or `test_` functions, or asserts by itself."""
    source, entry_point = request["source"], request["entry_point"]
    code = _compiled(source, "the test")
    scope = _Scope(request, source)
    tree = ast.parse(source)
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]

    def test(name: str, *wanted: str) -> Test:
        def passes(names: dict[str, Any]) -> bool:
            namespace = scope.names(names)
            exec(code, namespace)
            if name:
                namespace[name](*(_function(names, one) for one in wanted))
            return True

        return passes

    if "check" in functions and entry_point:
        return [test("check", entry_point)]
    tests = [test(name) for name in functions if name.startswith("test_")]
    if not tests and any(isinstance(node, ast.Assert) for node in tree.body):
        tests = [test("")]
    if not tests:
        raise BrokenTests(
            "the test has neither check(candidate) and an entry_point, nor test_ functions, nor "
            "asserts"
        )
    return tests


class _Scope:
    """What names mean to tests: first what they define, then the task, then Python, then the code.

    A model's code may define `abs` or `isclose` for itself, never for the tests.
    """

    def __init__(self, request: Mapping[str, Any], tests: str) -> None:
        self._entry_point = request["entry_point"] or _tested_builtin(_parsed(tests))
        self._given: dict[str, Any] = {}
        if compiles(prompt := request.get("prompt", "")):
            exec(prompt, self._given)

    def names(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """The namespace for one test.

        Args:
            names: What the model's code defines.
        """
        theirs = {name: value for name, value in names.items() if not hasattr(builtins, name)}
        namespace = {**theirs, **self._given, "__name__": "tests"}
        if self._entry_point in names:
            namespace[self._entry_point] = names[self._entry_point]
        return namespace


def _tested_builtin(tests: ast.Module) -> str:
    """The builtin's name under which a function is tested, as in `assert sum(10, 15) == 6`.

    It is one only where the tests call nothing that is not a builtin.
    """
    calls = [node.func for node in ast.walk(tests) if isinstance(node, ast.Call)]
    called = [function.id for function in calls if isinstance(function, ast.Name)]
    if not called or not all(hasattr(builtins, name) for name in called):
        return ""
    return called[0]  # the outermost one, since `walk` goes from the outside in


def _parsed(source: str) -> ast.Module:
    _compiled(source, "the tests")
    return ast.parse(source)


def _function(names: Mapping[str, Any], entry_point: str) -> Any:
    """A function by its name, or a method of a new `Solution`."""
    name = entry_point.rpartition(".")[2]
    if name not in names and "Solution" in names:
        return getattr(names["Solution"](), name)
    return names[name]


def _compiled(source: str, what: str) -> Any:
    try:
        return compile(source, f"<{what}>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BrokenTests(f"{what} is no Python: {error}") from error


KINDS: Mapping[str, Callable[[Mapping[str, Any]], list[Test]]] = {
    "calls": _calls,
    "asserts": _asserts,
    "script": _script,
}
"""The tests of a request, by its kind."""
