"""A thousand adversarial inputs over the hub: each ends in a finite number or a typed failure."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from adversarial_inputs import METADATA, RESPONSES, VALUES, held
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case, reward_in
from retrain.reward.hub.catalogue import NAMES
from retrain.reward.hub.pool import close_pools, code_pool, math_pool, text_pool
from retrain.reward.hub.scoring import make_scorer

pytest.importorskip("math_verify")
pytest.importorskip("jsonschema")

_PARAMS: dict[str, dict[str, Any]] = {
    "math": {"seconds": 0.3, "answer": "anywhere"},
    "deepscaler": {"seconds": 0.3},
    "dapo": {"seconds": 0.3},
    "regex": {"seconds": 0.3},
    "json_schema": {"seconds": 0.3},
    "length": {"most": 100, "unit": "characters"},
}


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_open() -> Any:
    close_pools()
    before = held()
    yield
    groups = [pool.pid for pool in (math_pool(), text_pool(), code_pool())]
    close_pools()
    assert held() == before
    assert not [pid for pid in groups if pid is not None and Path(f"/proc/{pid}").exists()]


@settings(
    max_examples=1000,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(name=st.sampled_from(NAMES), response=RESPONSES, label=VALUES, metadata=METADATA)
def test_whatever_comes_is_a_finite_reward_or_a_failure(
    name: str, response: str | None, label: Any, metadata: dict[str, Any]
) -> None:
    params = _PARAMS.get(name.removeprefix("boxed_"), {})
    try:
        score = make_scorer(name)(Case(response, label, metadata), **params)
    except RewardFailure as failure:
        assert len(str(failure)) < 5000
        return
    assert math.isfinite(reward_in(score, "score"))


@pytest.mark.parametrize("name", NAMES)
def test_a_megabyte_is_scored_or_refused_in_little_time(name: str) -> None:
    params = _PARAMS.get(name.removeprefix("boxed_"), {})
    metadata = {"choices": ["a", "b"], "instruction_id_list": ["format:newline"]}
    for response in ("y" * 2**20, "\\boxed{" * 2**17, "answer is a " * 2**16, "{" * 2**20):
        try:
            make_scorer(name)(Case(response, "1", metadata), **params)
        except RewardFailure:
            continue


_LINES = st.sampled_from(
    [
        *(
            "while True: pass",
            "import os\nos.fork()",
            "import os\nos._exit(0)",
            "print('x' * 10**7)",
        ),
        *(
            "x = b'x' * 10**10",
            "open('f', 'w').write('y' * 10**8)",
            "import this",
            "def f(x): return x",
        ),
        *(
            "import os\nprint(os.environ)",
            "import sys\nsys.exit()",
            "raise SystemExit(0)",
            "1/0",
            "f = 3",
        ),
        *(
            "import socket\nsocket.create_connection(('127.0.0.1', 9))",
            "input()",
            "(" * 300,
            "\x00",
        ),
        *("import os\nos.kill(os.getppid(), 9)", "\ud800 = 1", "class f: __eq__ = lambda *_: True"),
        *(
            "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f(x)",
            "import time\ntime.sleep(9)",
        ),
    ]
)
_TESTS = st.sampled_from(
    [
        {"inputs": ["1\n"], "outputs": ["1\n"]},
        {"fn_name": "f", "inputs": [[1]], "outputs": [2]},
        {"test_list": ["assert f(1) == 2"]},
    ]
)


@pytest.mark.skipif(sys.platform != "linux", reason="programs are run on Linux only")
@pytest.mark.filterwarnings("ignore:programs run on the level")
@settings(max_examples=12, deadline=None, derandomize=True)
@given(lines=st.lists(_LINES, min_size=1, max_size=4), tests=_TESTS)
def test_no_program_breaks_out_or_passes(lines: list[str], tests: dict[str, Any]) -> None:
    program = "\n".join(lines)
    case = Case(f"```python\n{program}\n```", json.dumps(tests))
    limits = {"seconds": 0.5, "total": 1.0, "memory": 128}
    try:
        assert make_scorer("code")(case, **limits) == 0.0
    except RewardFailure as failure:
        assert len(str(failure)) < 5000
