"""Adversarial cases and replies for the rewards that ask a server: a number or a typed failure."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")

from adversarial_inputs import METADATA, RESPONSES, VALUES, held
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scoring_server import Behaviour, ScoringServer, chats, completion, drips, hangs, hangs_up, says

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case
from retrain.reward.hub.pool import close_pools, text_pool
from retrain.reward.hub.service_rewards import ServiceReward

_QUICK = {"retries": 1, "backoff": 0.001, "attempt_timeout": 0.2, "timeout": 0.5}
_RUBRIC = "{prompt} {response} {label} {metadata} {metadata.schema.a}"
_PARAMS: dict[str, list[dict[str, Any]]] = {
    "remote": [{}, {"batch_size": 2}, {"compat": "slime"}, {"reward_key": "a"}],
    "llm_judge": [
        {},
        {"rubric": _RUBRIC, "cache": False},
        {"answer": "json", "score_key": "a"},
        {"answer": "pattern", "pattern": r"(\S*)\d"},
        {"price_in": 1.0, "price_out": 1.0, "budget": 1e-3, "most_characters": 10_000},
    ],
}
_SERVICES = st.sampled_from(sorted(_PARAMS)).flatmap(
    lambda name: st.tuples(st.sampled_from([name, f"boxed_{name}"]), st.sampled_from(_PARAMS[name]))
)
_STATUSES = st.sampled_from([200, 201, 204, 301, 400, 401, 429, 500, 503])
_TEXTS = RESPONSES.map(lambda text: (text or "").encode("utf-8", "surrogatepass")[:300_000])
_SCORES = ["", "[[5]]", '{"a": 5}', "[[99999999999999999999999]]", '{"a": {"a": 1e999}}', "[[nan]]"]
_REPLIES = st.one_of(
    VALUES.map(says),
    st.builds(says, VALUES, _STATUSES, Retry_After=st.sampled_from(["0", "1e9", "x", "9" * 400])),
    st.builds(says, _TEXTS, _STATUSES),
    st.lists(VALUES, max_size=3).map(lambda values: says({"scores": values})),
    VALUES.map(lambda value: says({"score": value, "reward": value, "a": value})),
    VALUES.map(lambda value: says({**completion(value), "usage": value})),
    st.builds(lambda text, end: chats((text or "") + end), RESPONSES, st.sampled_from(_SCORES)),
    st.sampled_from([hangs, hangs_up, drips([b"["] * 50, seconds=0.0, length=99)]),
)
_PROMPTS = st.one_of(VALUES, st.lists(st.fixed_dictionaries({"role": VALUES, "content": VALUES})))


@pytest.fixture(scope="module")
def server() -> Iterator[ScoringServer]:
    close_pools()
    before = held()
    server = ScoringServer(says(1))
    yield server
    server.close()
    nursery = text_pool().pid
    close_pools()
    assert held() == before
    assert nursery is None or not Path(f"/proc/{nursery}").exists()


async def _ask(reward: ServiceReward, case: Case) -> None:
    try:
        score = await asyncio.wait_for(reward.score(case), 60)
    except RewardFailure as failure:
        assert len(str(failure)) < 5000
        return
    assert isinstance(score, float) and math.isfinite(score)


async def _ask_at_once(reward: ServiceReward, cases: list[Case]) -> None:
    try:
        await asyncio.gather(*(_ask(reward, case) for case in cases))
    finally:
        await reward.service.aclose()
    assert len(asyncio.all_tasks()) == 1, "nothing runs on"


def _settings(examples: int) -> Any:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=checks
    )


def _injected(server: ScoringServer, service: Any, case: Case, reply: Behaviour) -> None:
    name, params = service
    where = {"url": f"{server.url}/score"}
    if "llm_judge" in name:
        where = {"base_url": f"{server.url}/v1", "model": "m"}
    server.always = reply
    server.seen.clear()
    reward = ServiceReward(name, {**_QUICK, **where, **params})
    asyncio.run(_ask_at_once(reward, [case, case, Case("fine", "1", {}, prompt="Q?")]))
    json.dumps(reward.measured(), allow_nan=False)


_CASES = st.builds(Case, RESPONSES, VALUES, METADATA, st.none(), _PROMPTS)


@_settings(100)
@given(service=_SERVICES, case=_CASES, reply=_REPLIES)
def test_whatever_is_asked_and_answered_is_a_finite_reward_or_a_failure(
    server: ScoringServer, service: Any, case: Case, reply: Behaviour
) -> None:
    _injected(server, service, case, reply)


@pytest.mark.soak
@_settings(1000)
@given(service=_SERVICES, case=_CASES, reply=_REPLIES)
def test_a_thousand_of_them(
    server: ScoringServer, service: Any, case: Case, reply: Behaviour
) -> None:
    _injected(server, service, case, reply)
