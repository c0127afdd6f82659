"""The reward `code`: what is read out of a response, and which tests it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from retrain.errors import ConfigError, RewardFailure
from retrain.reward.hub.cases import Case
from retrain.reward.hub.code_answer import code
from retrain.reward.hub.code_block import last_block
from retrain.reward.hub.code_outputs import same_output, same_value
from retrain.reward.hub.code_tests import Asserts, Calls, Outputs, Script, read_tests
from retrain.reward.hub.scoring import make_scorer

linux = pytest.mark.skipif(sys.platform != "linux", reason="programs are run on Linux only")

PYTHON = ["python", "python3", "py", ""]
SUMS = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}


def fenced(program: str) -> str:
    return f"Here it is:\n\n```python\n{program}\n```\nDone."


def score(
    program: str, label: Any = None, *, task: dict[str, Any] | None = None, **k: Any
) -> float:
    return code(Case(fenced(program), label, task or {}), **{"give": "share", **k})


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("```python\na\n```", "a\n"),
        ("```python\na\n```\n```py\nb\n```", "b\n"),
        ("```python\na\n```\n```text\nb\n```", "a\n"),
        ("```\na\n```", "a\n"),
        ("~~~python\n```\n~~~", "```\n"),
        ("````python\n```\n````", "```\n"),
        ("  ```PYTHON title=x\n  a\n  ```", "  a\n"),
        ("```python\na\n", None),
        ("```json\n{}\n```", None),
        ("```python``` is a span\n", None),
        ("no code", None),
        ("", None),
    ],
)
def test_the_last_closed_block_of_a_language_is_the_program(text: str, block: str | None) -> None:
    assert last_block(text, PYTHON) == block


def test_which_tags_count_is_chosen() -> None:
    text = "```python\na\n```\n```text\nb\n```"
    assert last_block(text, ["text"]) == "b\n"


@pytest.mark.parametrize(
    ("label", "metadata", "expected"),
    [
        (SUMS, {}, Outputs((("1 2\n", "3\n"), ("3 4\n", "7\n")))),
        (json.dumps(SUMS), {}, Outputs((("1 2\n", "3\n"), ("3 4\n", "7\n")))),
        (None, {"input_output": json.dumps(SUMS)}, Outputs((("1 2\n", "3\n"), ("3 4\n", "7\n")))),
        (
            None,
            {"public_tests": {"input": ["1"], "output": [["2", "3"]]}},
            Outputs((("1", "2\n3"),)),
        ),
        (
            {"fn_name": "f", "inputs": [[1, [2]]], "outputs": [[3]]},
            {},
            Calls("f", (([1, [2]], [3]),)),
        ),
        (
            [{"input": "[1, 2]\n3", "output": "5", "testtype": "functional"}],
            {"func_name": "Solution.f"},
            Calls("Solution.f", (([[1, 2], 3], 5),)),
        ),
        (
            [{"input": "1", "output": "5", "testtype": "stdin", "metadata": {"func_name": None}}],
            {"func_name": ""},
            Outputs((("1", "5"),)),
        ),
        (
            None,
            {"test_list": ["assert f(1) == 2"], "test_setup_code": "import re", "test_imports": []},
            Asserts(("assert f(1) == 2",), "import re"),
        ),
        (["assert f(1) == 2"], {}, Asserts(("assert f(1) == 2",))),
        (
            "ignored",
            {"test": "def check(c): pass", "entry_point": "f", "prompt": "def f():\n"},
            Script("def check(c): pass", "f", "def f():\n"),
        ),
        (
            "def check(c):\n    assert c()",
            {"entry_point": "f"},
            Script("def check(c):\n    assert c()", "f"),
        ),
    ],
)
def test_tests_are_read_in_the_shapes_of_known_datasets(
    label: Any, metadata: dict[str, Any], expected: Any
) -> None:
    assert read_tests(Case("", label, metadata)) == expected


@pytest.mark.parametrize(
    ("label", "metadata", "message"),
    [
        (None, {}, "no tests; the label is None"),
        (3, {}, "no tests; the label is 3"),
        ("42", {}, "no tests"),
        ([], {}, "no tests"),
        ({}, {"difficulty": "easy"}, "no tests"),
        ({"inputs": [], "outputs": []}, {}, "0 inputs and 0 outputs"),
        ({"inputs": ["1"], "outputs": []}, {}, "1 inputs and 0 outputs"),
        ({"inputs": [{}], "outputs": ["1"]}, {}, "an input or output is"),
        ({"inputs": [3], "outputs": [1], "fn_name": "f"}, {}, "arguments are 3, expected a list"),
        ({"inputs": ["["], "outputs": [1], "fn_name": "f"}, {}, "not a JSON value a line"),
        ([{"input": "1", "output": "1", "testtype": "functional"}], {}, "without func_name"),
        ([{"in": "1"}], {}, "a list of tests holds"),
        (None, {"test_list": [1]}, "expected a list of statements"),
        (None, {"test_list": "assert f(1)"}, "expected a list of statements"),
    ],
)
def test_broken_tests_are_a_failure_and_never_a_score(
    label: Any, metadata: dict[str, Any], message: str
) -> None:
    with pytest.raises(RewardFailure, match=message):
        code(Case(fenced("print(1)"), label, metadata))


@pytest.mark.parametrize(
    ("given", "expected", "tolerance", "same"),
    [
        ("1 2\n", "1  2", None, True),
        ("1\n2\n\n\n", "1\n2", None, True),
        ("1\r\n2", "1\n2", None, True),
        ("\n1", "1", None, False),
        ("1\n2", "1 2", None, False),
        ("0.30000001", "0.3", None, False),
        ("0.30000001", "0.3", 1e-6, True),
        ("0.31", "0.3", 1e-6, False),
        ("nan", "nan", 1e-6, True),
        ("x 1.0", "y 1", 1e-6, False),
        ("1 2", "1", 1e-6, False),
        ("inf", "1", 1e-6, False),
    ],
)
def test_outputs_are_compared_by_lines_and_words(
    given: str, expected: str, tolerance: float | None, same: bool
) -> None:
    assert same_output(given, expected, tolerance) is same


@pytest.mark.parametrize(
    ("given", "expected", "tolerance", "same"),
    [
        ((1, 2), [1, 2], None, True),
        (5, [5], None, True),
        ([5], 5, None, False),
        ({1: (2,)}, {"1": [2]}, None, True),
        (0.1 + 0.2, 0.3, None, False),
        ([0.1 + 0.2], [0.3], 1e-9, True),
        (float("nan"), 1.0, 1e-9, False),
        ("1", 1, 1e-9, False),
        (None, None, None, True),
        ([1], [1, 2], None, False),
    ],
)
def test_values_are_compared_as_json(
    given: Any, expected: Any, tolerance: float | None, same: bool
) -> None:
    assert same_value(given, expected, tolerance) is same


@linux
def test_a_program_is_scored_by_its_output() -> None:
    assert score("print(sum(map(int, input().split())))", SUMS) == 1.0
    assert score("import sys\nprint(sum(map(int, open('/dev/stdin').read().split())))", SUMS) == 1.0
    assert score("print(3)", SUMS) == 0.5
    assert score("print(3)", SUMS, give="all") == 0.0
    assert score("print(3)", SUMS, most=1) == 1.0


@linux
@pytest.mark.parametrize(
    "program", ["def f(:", "", "x" * 200_000, "\x00", "\ud800", "import numpy", "1/0", "input()"]
)
def test_a_program_that_does_not_run_is_wrong(program: str) -> None:
    assert score(program, {"inputs": [""], "outputs": ["1"]}) == 0.0


@pytest.mark.parametrize("response", [None, "", "no code", "```python\nprint(1)", "y" * 2**20])
def test_a_response_without_a_block_is_wrong(response: str | None) -> None:
    assert code(Case(response, SUMS)) == 0.0


def test_a_program_in_the_reasoning_is_not_the_answer() -> None:
    assert code(Case(f"<think>{fenced('print(3)')}</think>None.", SUMS)) == 0.0


@linux
@pytest.mark.parametrize(
    ("program", "task"),
    [
        ("def sum(a, b): return a + b", {"test_list": ["assert sum(10, 15) == 25"]}),
        (
            "from math import isclose\ndef f(x): return x / 3",
            {"test_list": ["import math\nassert math.isclose(f(1), 1 / 3)", "assert f(3) == 1.0"]},
        ),
        (
            "class Stack:\n  def __init__(self): self.items = []\n"
            "  def push(self, x): self.items.append(x)\n  def pop(self): return self.items.pop()",
            {"test": "s = Stack()\ns.push(1)\ns.push((2, 3))\nassert s.pop() == (2, 3)\n"},
        ),
        (
            "class Node:\n  def __init__(self, value): self.value, self.left = value, None\n"
            "def depth(n): return 0 if n is None else 1 + depth(n.left)",
            {
                "test_setup_code": "r = Node(1)\nr.left = Node(2)",
                "test_list": ["assert depth(r) == 2"],
            },
        ),
        (
            "class Wrong(ValueError): pass\ndef f(x): raise Wrong('no')",
            {
                "test": "from solution import f, Wrong\n"
                "def test_own():\n  try: f(1)\n  except Wrong as e: assert str(e) == 'no'\n"
                "  else: assert False\n"
                "def test_standard():\n  try: f(1)\n  except ValueError: return\n  assert False\n"
            },
        ),
        (
            "def f(x): x.sort()\ndef g(d): d['a'] = {1}",
            {"test": "x = [3, 1]\nf(x)\nd = {}\ng(d)\nassert x == [1, 3] and d == {'a': {1}}"},
        ),
        (
            "def f(g, x): return g(x)",
            {
                "test": "assert f(lambda a: f(lambda b: b * 2, a) + 1, 2) == 5\n"
                "assert f(len, [1]) == 1"
            },
        ),
        (
            "from collections import namedtuple, Counter, deque\nfrom enum import IntEnum\n"
            "P = namedtuple('P', 'a b')\nclass E(IntEnum):\n  X = 3\n"
            "def f(): return [P(1, 2), Counter('aab'), E.X, deque([1]), 10**5000, 1j, b'x', {4}]",
            {
                "test": "from collections import deque\np, c, *rest = f()\n"
                "assert p == (1, 2) and p.a == 1 and c == {'a': 2, 'b': 1}\n"
                "assert rest == [3, deque([1]), 10**5000, 1j, b'x', {4}]"
            },
        ),
        (
            "def f():\n  yield 1\n  yield 2\ndef add(n): return lambda x: x + n",
            {"test": "assert list(f()) == [1, 2]\nassert add(2)(3) == 5"},
        ),
    ],
)
def test_tests_in_a_process_of_their_own_see_what_they_would_see_in_one(
    program: str, task: dict[str, Any]
) -> None:
    assert score(program, task=task) == 1.0


@linux
def test_functions_are_called_by_name_or_as_a_method_of_solution() -> None:
    label = {"fn_name": "add", "inputs": [[1, 2], [0.1, 0.2]], "outputs": [[3], 0.3]}
    assert score("def add(a, b): return a + b", label) == 0.5
    assert score("def add(a, b): return a + b", label, tolerance=1e-9) == 1.0
    method = "class Solution:\n  def add(self, a, b): return a + b"
    assert score(method, label, tolerance=1e-9) == 1.0
    assert score("def other(a, b): return a + b", label) == 0.0


@linux
@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"test_list": ["assert f(1) ==="]}, "test 0 is no Python"),
        ({"test": "import numpy\nassert f(1)"}, "No module named 'numpy'"),
        ({"test": "x = 1"}, "nor asserts"),
        ({"test": "def check(candidate): assert True"}, "an entry_point"),
        ({"test": "class A: pass\nassert f(A())"}, "A objects stay in the tests' process"),
    ],
)
def test_tests_that_cannot_be_run_are_a_failure(task: dict[str, Any], message: str) -> None:
    with pytest.raises(RewardFailure, match=message):
        score("def f(x): return x", task=task)


@linux
def test_what_is_installed_can_be_imported_where_that_is_allowed() -> None:
    task = {"test": "import pydantic\nassert f() == pydantic.VERSION"}
    program = "import pydantic\ndef f(): return pydantic.VERSION"
    assert score(program, task=task, packages=True) == 1.0


@pytest.mark.parametrize("params", [{"seconds": 0}, {"memory": 5000}, {"total": -1}])
def test_limits_out_of_range_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(RewardFailure, match="seconds and total have to be > 0, memory 1 to 4096"):
        score("print(1)", SUMS, **params)


@linux
def test_a_box_is_taken_out_first() -> None:
    response = "\\boxed{\n```python\nprint(1)\n```\n}"
    assert make_scorer("boxed_code")(Case(response, {"inputs": [""], "outputs": ["1"]})) == 1.0


@linux
def test_a_file_of_responses_is_scored_on_the_command_line(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from retrain.cli.main import app

    file = tmp_path / "answers.jsonl"
    programs = ["print(sum(map(int, input().split())))", "print(3)", "while True: pass"]
    rows = [{"response": fenced(program), "label": SUMS} for program in programs]
    file.write_text("\n".join(map(json.dumps, [*rows, {"response": fenced("1"), "label": 3}])))
    params = ["--param", "give=share", "--param", "seconds=1.0", "--param", "total=1.0", "--json"]
    result = CliRunner().invoke(app, ["reward", str(file), "--reward", "code", *params])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [row["reward"] for row in document["rows"]] == [1.0, 0.5, 0.0, None]


class TestMonty:
    """The interpreter that knows nothing outside."""

    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("pydantic_monty")

    @pytest.mark.parametrize(
        ("program", "label", "reward"),
        [
            ("def f(a, b): return a + b", ["assert f(1, 2) == 3", "assert f(1, 1) == 3"], 0.5),
            (
                "class Solution:\n  def f(self, a): return [a]",
                {"fn_name": "f", "inputs": [[1], ["x"]], "outputs": [[1], ["x"]]},
                1.0,
            ),
            (
                "class A:\n  def __eq__(self, o): return True\ndef f(): return A()",
                ["assert f() == 3"],
                0,
            ),
            ("def f():\n  while True: print(1)", ["assert f() == 3"], 0.0),
            ("def f(): return 'x' * 10**10", ["assert f() == 3"], 0.0),
            ("def f(): return open('/etc/passwd').read()", ["assert f() == 3"], 0.0),
            ("def f(", ["assert f() == 3"], 0.0),
        ],
    )
    def test_functions_are_scored(self, program: str, label: Any, reward: float) -> None:
        assert score(program, label, interpreter="monty", seconds=0.5) == reward

    @pytest.mark.parametrize("label", [SUMS, ["assert abs(f(1) - 2) < 1"], "assert f(1) == 2"])
    def test_what_needs_all_of_python_is_a_failure(self, label: Any) -> None:
        with pytest.raises(RewardFailure, match="monty"):
            score("def f(x): return 2", label, interpreter="monty")

    def test_without_the_package_the_command_that_installs_it_is_shown(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("retrain.reward.hub.catalogue.find_spec", lambda name: None)
        with pytest.raises(ImportError, match=r"pip install 'retrain\[monty\]'"):
            score("def f(): return 2", ["assert f() == 2"], interpreter="monty")


def test_namespaces_that_are_required_and_not_had_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from retrain.sandbox import running
    from retrain.sandbox.limits import Level

    monkeypatch.setattr(running, "_FOUND", [(Level.LIMITS, "namespaces: unshare: not permitted")])
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(ConfigError, match=r"allows no namespaces \(namespaces: unshare"):
        score("print(1)", SUMS, isolation="required")


def test_on_other_systems_than_linux_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="on Linux only; use interpreter: monty"):
        score("print(1)", SUMS)
