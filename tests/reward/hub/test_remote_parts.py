"""The parts of `remote` and `llm_judge`: the breaker, the counts, the reading of replies."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.connections import retry_after, seconds_to_wait
from retrain.errors import RewardFailure
from retrain.reward.hub.judge_score import ScoreReader
from retrain.reward.hub.remote_protocol import read_score, read_scores
from retrain.reward.hub.service_breaker import BreakerState, CircuitBreaker
from retrain.reward.hub.service_faults import FaultKind, ServiceFailure
from retrain.reward.hub.service_tally import Tally, percentile

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_PIECES = st.sampled_from(
    [
        "[[",
        "]]",
        "[[8]]",
        "[[-1e5]]",
        '{"score": ',
        "8}",
        "{",
        "}",
        "</think>",
        "9" * 400,
        "nan",
        "\n",
    ]
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_breaker_opens_after_failures_in_a_row_and_lets_one_probe_through() -> None:
    clock = Clock()
    breaker = CircuitBreaker("S", failures=3, seconds=10, clock=clock)
    down = ServiceFailure("down")
    for outcome in (down, down, None, down, down):
        breaker.admit()
        breaker.record(outcome)
    assert breaker.state is BreakerState.CLOSED
    breaker.record(down)
    assert breaker.state is BreakerState.OPEN
    clock.now = 4.0
    with pytest.raises(
        ServiceFailure, match=r"S: not asked: .*tried again in 6.0 s; the last: down"
    ):
        breaker.admit()
    clock.now = 10.0
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.admit()
    with pytest.raises(ServiceFailure, match="by one request now") as refused:
        breaker.admit()
    assert refused.value.kind is FaultKind.BREAKER
    breaker.record(down)
    assert breaker.state is BreakerState.OPEN
    clock.now = 20.0
    breaker.admit()
    breaker.release()
    breaker.admit()
    breaker.record(None)
    assert breaker.state is BreakerState.CLOSED


def test_counts_are_taken_once_and_kept_in_all() -> None:
    tally = Tally()
    for seconds in (0.3, 0.1, 0.2):
        tally.add("requests")
        tally.took(seconds)
    tally.add("cost", 0.5)
    assert tally.take() == {
        "requests": 3,
        "cost": 0.5,
        "seconds_p50": 0.2,
        "seconds_p95": 0.3,
        "seconds_p99": 0.3,
    }
    tally.add("requests")
    assert tally.take() == {"requests": 1, "cost": 0.0}
    assert tally.totals() == {"requests": 4, "cost": 0.5}


def test_percentiles_are_values_that_came() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, p) for p in (0, 1, 50, 95, 99, 100)] == [1, 1, 50, 95, 99, 100]
    assert percentile([7.0], 50) == 7.0


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("7", 7, 7),
        ("", 0, 0),
        ("soon", 0, 0),
        ("-5", 0, 0),
        ("1.5", 0, 0),
        ("9" * 400, math.inf, math.inf),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 1e9, 1e12),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(value: str, least: float, most: float) -> None:
    assert least <= retry_after(value) <= most


@given(st.integers(0, 12), st.floats(0, 100))
def test_waits_are_jittered_bounded_and_as_long_as_asked(attempt: int, asked: float) -> None:
    wait = seconds_to_wait(attempt, 0.5, asked, 30.0)
    assert min(asked, 30.0) <= wait <= 30.0
    assert wait >= min(0.25 * 2**attempt, 30.0)


@given(_JSON, st.integers(1, 4))
def test_any_json_is_read_as_finite_scores_or_refused_in_a_line(reply: Any, count: int) -> None:
    try:
        scores = read_scores(reply, count)
    except RewardFailure as failure:
        assert len(str(failure)) < 200
        scores = [reply]
    for score in scores:
        try:
            assert math.isfinite(read_score(score, "score"))
        except RewardFailure as failure:
            assert len(str(failure)) < 200


@pytest.mark.parametrize("form", ["brackets", "json"])
@given(text=st.text() | st.lists(_PIECES, max_size=12).map("".join))
async def test_any_reply_of_a_judge_has_a_finite_score_or_none(form: Any, text: str) -> None:
    score = await ScoreReader(form, "score", None).find(text)
    assert score is None or math.isfinite(score)


@pytest.mark.parametrize("form", ["brackets", "json"])
@pytest.mark.parametrize("piece", ["[[", "[[1" * 50, "{", '{"score":', '{"a":[', "\\", "]]"])
async def test_a_megabyte_from_a_judge_is_read_in_little_time(form: Any, piece: str) -> None:
    assert await ScoreReader(form, "score", None).find(piece * (2**20 // len(piece))) is None
