"""Reads the tests of a task, in the shapes that datasets of programs have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case, shown

_SHAPES = (
    'inputs and outputs (APPS, TACO; with fn_name for functions), a list of {"input": …, '
    '"output": …} (LiveCodeBench), test_list (MBPP), or test with entry_point (HumanEval)'
)
_NESTED = ("input_output", "test_cases", "tests", "unit_tests", "public_tests", "private_tests")
_NAMES = ("fn_name", "func_name", "entry_point", "function_name")


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a program has to write on standard output.

    Attributes:
        pairs: Standard input, and the output that is expected.
    """

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Calls:
    """What a function has to return.

    Attributes:
        entry_point: The function's name.
        pairs: Arguments, and the value that is expected; JSON values.
    """

    entry_point: str
    pairs: tuple[tuple[list[Any], Any], ...]


@dataclass(frozen=True, slots=True)
class Asserts:
    """Statements that must not raise.

    Attributes:
        statements: Each a test.
        setup: What is run before each.
        entry_point: The function that is tested; "" where nobody says.
    """

    statements: tuple[str, ...]
    setup: str = ""
    entry_point: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """A script of tests: `check(candidate)`, `test_` functions or plain asserts.

    Attributes:
        source: The script.
        entry_point: The function that `check` is given.
        prompt: The beginning of a program that the model was to complete.
    """

    source: str
    entry_point: str = ""
    prompt: str = ""


Tests: TypeAlias = Outputs | Calls | Asserts | Script


def read_tests(case: Case) -> Tests:
    """The tests in a case's label, or else in its metadata.

    Raises:
        RewardFailure: There are none, or they are of a wrong kind.
    """
    metadata = dict(case.metadata or {})
    label = _decoded(case.label)
    if isinstance(label, Mapping):
        found = _in_mapping({**metadata, **label})
    elif isinstance(label, Sequence) and not isinstance(label, str) and label:
        found = _in_list(label, metadata)
    else:
        found = _in_mapping(metadata)
        if found is None and isinstance(label, str) and "assert" in label:
            found = Script(label, _entry_point(metadata), _prompt(metadata))
    if found is None:
        _refuse(f"no tests; the label is {shown(case.label)}")
    return found


def first_tests(tests: Tests, most: int | None) -> Tests:
    """The first tests of many; a script is not parted."""
    match tests:
        case Outputs():
            return replace(tests, pairs=tests.pairs[:most])
        case Calls():
            return replace(tests, pairs=tests.pairs[:most])
        case Asserts():
            return replace(tests, statements=tests.statements[:most])
        case Script():
            return tests


def _in_mapping(given: Mapping[str, Any]) -> Tests | None:
    for many in ("s", ""):
        inputs, outputs = given.get(f"input{many}"), given.get(f"output{many}")
        if isinstance(inputs, list) and isinstance(outputs, list):
            return _of_pairs(inputs, outputs, given)
    if given.get("test_list"):
        return _asserts(given["test_list"], given)
    if isinstance(given.get("test"), str):
        return Script(given["test"], _entry_point(given), _prompt(given))
    for key in _NESTED:
        nested = _decoded(given.get(key))
        if isinstance(nested, Mapping):
            return _in_mapping({**_named(given), **nested})
        if isinstance(nested, list) and nested:
            return _in_list(nested, given)
    return None


def _in_list(tests: Sequence[Any], given: Mapping[str, Any]) -> Tests:
    if all(isinstance(test, str) for test in tests):
        return _asserts(tests, given)
    if not all(isinstance(test, Mapping) and {"input", "output"} <= test.keys() for test in tests):
        _refuse(f"a list of tests holds {shown(tests[0])}")
    named = {**_named(_decoded(tests[0].get("metadata")) or {}), **_named(given)}
    if all(test.get("testtype", "stdin") == "stdin" for test in tests):
        named = {} if "testtype" in tests[0] else named
    elif not named:
        _refuse("functional tests without func_name")
    return _of_pairs([test["input"] for test in tests], [test["output"] for test in tests], named)


def _of_pairs(inputs: Sequence[Any], outputs: Sequence[Any], given: Mapping[str, Any]) -> Tests:
    if len(inputs) != len(outputs) or not inputs:
        _refuse(f"{len(inputs)} inputs and {len(outputs)} outputs")
    pairs = zip(inputs, outputs, strict=True)
    if entry_point := _entry_point(given):
        return Calls(entry_point, tuple(_call(*pair) for pair in pairs))
    return Outputs(tuple((_text(one), _text(other)) for one, other in pairs))


def _call(args: Any, expected: Any) -> tuple[list[Any], Any]:
    if isinstance(args, str):  # LiveCodeBench: a JSON value a line
        try:
            lines = [json.loads(line) for line in args.splitlines() if line.strip()]
            return lines, json.loads(expected) if isinstance(expected, str) else expected
        except (ValueError, RecursionError):
            _refuse(f"arguments that are not a JSON value a line: {shown(args)}")
    if not isinstance(args, list):
        _refuse(f"arguments are {shown(args)}, expected a list")
    return args, expected


def _text(given: Any) -> str:
    if isinstance(given, list):
        return "\n".join(map(_text, given))
    if isinstance(given, str):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool):
        return str(given)
    _refuse(f"an input or output is {shown(given)}, expected text")


def _asserts(statements: Any, given: Mapping[str, Any]) -> Asserts:
    if not isinstance(statements, list | tuple) or not all(_is_code(one) for one in statements):
        _refuse(f"test_list is {shown(statements)}, expected a list of statements")
    imports = given.get("test_imports") or []
    setup = [*(imports if isinstance(imports, list) else [imports]), given.get("test_setup_code")]
    return Asserts(
        tuple(statements), "\n".join(str(part) for part in setup if part), _entry_point(given)
    )


def _is_code(statement: Any) -> bool:
    return isinstance(statement, str) and bool(statement.strip())


def _entry_point(given: Mapping[str, Any]) -> str:
    return next(iter(_named(given).values()), "")


def _named(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        return {}
    return {key: given[key] for key in _NAMES if isinstance(given.get(key), str) and given[key]}


def _prompt(given: Mapping[str, Any]) -> str:
    prompt = given.get("prompt")
    return prompt if isinstance(prompt, str) else ""


def _decoded(given: Any) -> Any:
    """What JSON text holds; anything else as it is."""
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given


def _refuse(what: str) -> NoReturn:
    raise RewardFailure(f"code: {what}; expected {_SHAPES}")
