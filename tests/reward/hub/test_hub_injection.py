"""A thousand adversarial inputs over the hub: each ends in a finite number or a typed failure."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case, reward_in
from retrain.reward.hub.catalogue import NAMES
from retrain.reward.hub.pool import close_pools, math_pool, text_pool
from retrain.reward.hub.scoring import make_scorer

pytest.importorskip("math_verify")
pytest.importorskip("jsonschema")

_PIECES = st.sampled_from(
    [
        *("\\boxed{", "}", "{", "\\boxed", "\\frac", "\\frac{1}{", "\\sqrt", "^", "^{", "_", "!"),
        *("9^{9^{9^{9}}}", "10^{10^{10}}", "(((((3!)!)!)!)!)", "\\int", "\\sum_{i=1}^{10^9}", "$"),
        *("\\begin{pmatrix}", "\\end{pmatrix}", "\\text{", "\\def\\a{\\a\\a}\\a", "\\\\", "\\"),
        *("Answer:", "answer is ", "A", "(B)", "</think>", "<think>", "<answer>", "</answer>"),
        *("###Response", "1", "0", "1/0", "-", "+", ",", "x", "=", "nan", "inf", "1e999", "e"),
        *("\x00", "\ud800", "\u202e", "\u0663", "\U0001f600", "\n", "\r", " ", "\t", "```json\n"),
        *('{"a": ', "[[[[", "]", '"', "'", ";", "__import__('os')._exit(1)", "os.abort()", "%s"),
        *("a" * 50, "(" * 300, "[" * 2000, "{" * 500, "1+" * 800, "\\frac{" * 200, "9" * 5000),
        "y" * 200_000,
    ]
)
_RESPONSES = st.one_of(
    st.none(),
    st.lists(_PIECES, max_size=12).map("".join),
    st.lists(_PIECES, max_size=6).map(lambda pieces: f"\\boxed{{{''.join(pieces)}}}"),
    st.lists(_PIECES, max_size=6).map(lambda pieces: f"Answer: {''.join(pieces)}"),
    st.text(max_size=200),
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | _PIECES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
_KEYS = ("choices", "valid_letters", "correct_letter", "correct_answer", "schema", "kwargs")
_METADATA = st.dictionaries(st.sampled_from((*_KEYS, "instruction_id_list")), _VALUES, max_size=3)
_PARAMS: dict[str, dict[str, Any]] = {
    "math": {"seconds": 0.3, "answer": "anywhere"},
    "deepscaler": {"seconds": 0.3},
    "dapo": {"seconds": 0.3},
    "regex": {"seconds": 0.3},
    "json_schema": {"seconds": 0.3},
    "length": {"most": 100, "unit": "characters"},
}


def held() -> tuple[int, int]:
    """Open files and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_open() -> Any:
    close_pools()
    before = held()
    yield
    groups = [pool.pid for pool in (math_pool(), text_pool())]
    close_pools()
    assert held() == before
    assert not [pid for pid in groups if pid is not None and Path(f"/proc/{pid}").exists()]


@settings(
    max_examples=1000,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(name=st.sampled_from(NAMES), response=_RESPONSES, label=_VALUES, metadata=_METADATA)
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
