"""Programs that try to pass tests without doing what the tests ask for."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from retrain.reward.hub.cases import Case
from retrain.reward.hub.code_answer import code

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are run on Linux only")

SECRET = "918273645"
ASSERTS = [
    f"assert f(1) == {SECRET}",
    "assert abs(f(2) - 5.5) < 1e-6",
    "assert len(f(3)) == 77 and sum(f(3)) == 7700",
    "assert 4242 in f(4) and 1 not in f(4)",
    "assert round(f(5)) == 6 and isinstance(f(5), float) and str(f(5)) == '6.25'",
    "assert sorted(f(6)) == [1, 2] and min(f(6)) == 1 and all(x in f(6) for x in (1, 2))",
]
HONEST = """
def f(x):
    return {1: 918273645, 2: 5.5, 3: [100] * 77, 4: [4242], 5: 6.25, 6: (2, 1)}[x]
"""
CHECK = f"def check(candidate):\n    import math\n    assert candidate(1) == {SECRET}\n"
CALLS = {"fn_name": "f", "inputs": [[1], [2]], "outputs": [int(SECRET), 55555]}

ALWAYS = """
class Always({base}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
    def __contains__(self, item): return True
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __abs__ = __round__ = __sub__
    def __float__(self): return 0.0
    def __instancecheck__(self, other): return True
    {extra}
def f(x): return Always()
"""

CHEATS = {
    "exits with 0 before any test": "import os\nos._exit(0)",
    "raises SystemExit when imported": "import sys\nsys.exit(0)",
    "exits with 0 when called": "import os\ndef f(x): os._exit(0)",
    "raises SystemExit when called": "def f(x): raise SystemExit(0)",
    "raises KeyboardInterrupt": "def f(x): raise KeyboardInterrupt",
    "equals everything": ALWAYS.format(base="object", extra=""),
    "is an int that equals everything": ALWAYS.format(base="int", extra=""),
    "is a float that equals everything": ALWAYS.format(base="float", extra=""),
    "is a text that equals everything": ALWAYS.format(base="str", extra=""),
    "is a list that equals everything": ALWAYS.format(base="list", extra=""),
    "is a dictionary that equals everything": ALWAYS.format(base="dict", extra=""),
    "claims another class": ALWAYS.format(
        base="object", extra="__class__ = property(lambda self: int)"
    ),
    "answers every attribute": ALWAYS.format(
        base="object", extra="def __getattr__(self, name): return self"
    ),
    "has a metaclass that equals everything": """
class Meta(type):
    def __eq__(cls, other): return True
    __hash__ = type.__hash__
class f(metaclass=Meta):
    def __init__(self, x): pass
    def __eq__(self, other): return True
""",
    "replaces builtins": """
import builtins
for name in ("abs", "len", "sum", "round", "isinstance", "sorted", "all", "min", "str"):
    setattr(builtins, name, lambda *a, **k: True)
builtins.AssertionError = ValueError
builtins.__import__ = lambda *a, **k: None
def f(x): return 1
""",
    "defines names that the tests use": """
class Any:
    def __eq__(self, other): return True
    def __lt__(self, other): return True
    def __and__(self, other): return True
abs = len = sum = round = isinstance = sorted = all = min = str = lambda *a, **k: Any()
AssertionError = ValueError
def f(x): return 1
""",
    "patches modules": """
import math, json, operator, socket
math.isclose = json.loads = json.dumps = operator.eq = lambda *a, **k: True
def f(x): return 1
""",
    "writes verdicts to every file": """
import os, json
line = b'{"tests": 6}\\n' + b'{"passed": true}\\n' * 6
def f(x):
    for descriptor in range(64):
        try: os.write(descriptor, line)
        except OSError: pass
for descriptor in (1, 2):
    os.write(descriptor, line)
""",
    "forges answers on the socket": """
import os, struct, json
def frame(value):
    message = json.dumps(value).encode()
    return struct.pack(">I", len(message)) + message
for value in (True, {"passed": True}, {"value": True}, {"value": ["yours", 0]}, {"tests": 1}):
    os.write(3, frame(value))
def f(x): return 1
""",
    "says that the tests are broken": """
def f(x):
    raise ImportError("No module named 'numpy'")
""",
    "asks the tests to call exec": """
import builtins
f = builtins.exec
""",
    "is a module": "import operator as f",
    "looks for the tests in its own memory": f"""
import gc, sys
def f(x):
    frame = sys._getframe()
    while frame:
        for value in (*frame.f_locals.values(), *frame.f_globals.values()):
            if {SECRET[:4]!r} + {SECRET[4:]!r} in str(value): return 918273645
        frame = frame.f_back
    for thing in gc.get_objects():
        if isinstance(thing, str) and "assert f(1) == 9" in thing: return 918273645
""",
    "looks for the tests in other processes": """
import os, re
def f(x):
    for pid in (os.getppid(), *map(int, filter(str.isdigit, os.listdir("/proc")))):
        if pid == os.getpid(): continue
        for name in ("environ", "cmdline", "fd/0", "mem"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    found = re.search(rb"assert f.1. == (\\d+)", file.read(10**6))
            except (OSError, ValueError): continue
            if found: return int(found[1])
        try:
            for line in open(f"/proc/{pid}/maps"):
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                with open(f"/proc/{pid}/mem", "rb") as memory:
                    memory.seek(start)
                    found = re.search(rb"assert f.1. == (\\d+)", memory.read(end - start))
                if found: return int(found[1])
        except (OSError, ValueError, OverflowError): continue
""",
    "looks for the tests in files": """
import os, re
def f(x):
    for folder in (".", "/tmp", os.path.expanduser("~"), "/program"):
        for where, _, names in os.walk(folder):
            for name in names[:100]:
                try: text = open(os.path.join(where, name)).read()
                except (OSError, ValueError): continue
                found = re.search(r"assert f.1. == (\\d+)", text)
                if found: return int(found[1])
""",
    "traces its parent": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def f(x):
    if libc.ptrace(16, os.getppid(), 0, 0) == 0: return 918273645
    pidfd = libc.syscall(434, os.getppid(), 0)
    if pidfd >= 0 and libc.syscall(438, pidfd, 1, 0) >= 0: return 918273645
""",
    "kills its parent": "import os\ndef f(x): os.kill(os.getppid(), 9)",
    "ends its parent's patience": """
import os, signal
def f(x):
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        os.kill(os.getppid(), number)
""",
    "stops its parent": "import os, signal\ndef f(x): os.kill(os.getppid(), signal.SIGSTOP)",
    "returns a gigabyte": "def f(x): return 'x' * 2**30",
    "returns what is nested deeply": """
def f(x):
    value = []
    for _ in range(100000): value = [value]
    return value
""",
    "returns what holds itself": """
def f(x):
    value = []
    value.append(value)
    return value
""",
    "yields without end": "def f(x):\n    while True: yield x",
    "never returns": "def f(x):\n    while True: pass",
    "returns not a number": "def f(x): return float('nan')",
    "returns nothing": "def f(x): pass",
}


ENDLESS = {
    "yields without end",
    "never returns",
    "stops its parent",
    "writes verdicts to every file",
}
"""They are ended by a limit, which is short for them."""


def score(program: str, *, endless: bool = False, **kwargs: Any) -> float:
    seconds, total = (0.3, 1.2) if endless else (5.0, 20.0)
    return code(
        Case(f"```python\n{program}\n```", **kwargs), seconds=seconds, total=total, give="share"
    )


def test_an_honest_program_passes_these_tests() -> None:
    assert score(HONEST, metadata={"test_list": ASSERTS}) == 1.0
    assert score(HONEST, metadata={"test": CHECK, "entry_point": "f"}) == 1.0
    assert score(HONEST.replace("2: 5.5", "2: 55555"), label=CALLS) == 1.0


@pytest.mark.parametrize("name", CHEATS)
def test_asserts_are_not_cheated_by_a_program_that(name: str) -> None:
    assert score(CHEATS[name], endless=name in ENDLESS, metadata={"test_list": ASSERTS}) == 0.0


@pytest.mark.parametrize(
    "name", ["is a list that equals everything", "forges answers on the socket", "is a module"]
)
def test_neither_calls_nor_a_check_function_are_cheated_by_a_program_that(name: str) -> None:
    assert score(CHEATS[name], label=CALLS) == 0.0
    assert score(CHEATS[name], metadata={"test": CHECK, "entry_point": "f"}) == 0.0


def test_a_prompt_keeps_its_names_from_a_program_that_defines_them_again() -> None:
    task = {
        "prompt": "import math\ndef twice(x):\n    return 2 * x\ndef f(x):\n    'Double.'\n",
        "test": "def check(candidate):\n    assert math.isclose(candidate(3), twice(3))\n",
        "entry_point": "f",
    }
    cheat = """
class math:
    isclose = staticmethod(lambda *numbers: True)
def twice(x): return 0
def f(x): return 0
"""
    assert score(cheat, metadata=task) == 0.0
    assert score("def f(x): return x + x", metadata=task) == 1.0
    assert score("    return x + x", metadata=task) == 1.0


PRINTS = {
    "exits with 0 and prints nothing": "import os\nos._exit(0)",
    "looks for the output in files": """
import os
for where, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if where != "/" or name not in ("usr", "sys")]
    for name in names[:200]:
        path = os.path.join(where, name)
        if name.endswith(".py") or not os.path.isfile(path): continue
        try: text = open(path, errors="replace").read(10000)
        except OSError: continue
        if "91827" + "3645" in text:
            print(918273645)
            os._exit(0)
""",
    "looks for the output in its surroundings": """
import os, sys
found = "91827" + "3645"
print(found if found in str(os.environ) + str(sys.argv) + open("/proc/self/cmdline").read() else 0)
""",
    "prints what is right and fails": "print(918273645)\nraise SystemExit(1)",
    "prints every number": "print(*range(918273000, 918273999))",
    "closes its output": "import os\nos.close(1)",
    "prints what is right without end": "while True: print(918273645)",
}


@pytest.mark.parametrize("name", PRINTS)
def test_output_is_not_cheated_by_a_program_that(name: str) -> None:
    pairs = {"inputs": ["1\n"], "outputs": [f"{SECRET}\n"]}
    assert score(PRINTS[name], endless=True, label=pairs) == 0.0
