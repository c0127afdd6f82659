"""`remote` with `compat="slime"` beside slime's own `remote_rm`: the same requests and rewards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from scoring_server import ScoringServer
from slime_source import importable_slime

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case
from retrain.reward.hub.service_rewards import ServiceReward

pytestmark = pytest.mark.slime

REPLIES = ["0.5", "1", "-2e-3", '{"reward": 0.25, "why": "x"}']
NO_NUMBERS = ["null", '"0.5"', "NaN", "[1]", "{}"]
PROMPTS: list[Any] = ["Q", "é🙂", [{"role": "user", "content": "Q"}]]


@pytest.fixture(scope="module", autouse=True)
def slime_is_importable() -> Iterator[None]:
    with importable_slime():
        yield


@pytest.fixture
def server() -> Iterator[ScoringServer]:
    started = ScoringServer(says_first)
    yield started
    started.close()


async def says_first(request: web.Request, body: Any) -> web.StreamResponse:
    """Answers what the label is."""
    return web.Response(text=body["label"], content_type="application/json")


async def theirs(url: str, name: str, case: Case) -> Any:
    from slime.rollout.rm_hub import async_rm
    from slime.utils.types import Sample

    args = SimpleNamespace(rm_type=name, custom_rm_path=None, reward_key=None, rm_url=url)
    sample = Sample(
        prompt=case.prompt, response=case.response, label=case.label, metadata=dict(case.metadata)
    )
    return await async_rm(args, sample)


async def test_requests_and_rewards_are_slimes(server: ScoringServer) -> None:
    """In one event loop: slime keeps its connections, which cannot change theirs."""
    url = f"{server.url}/rm"
    for box, prompt, reply in itertools.product(("", "boxed_"), PROMPTS, REPLIES):
        case = Case('a "\\boxed{7}" \n', reply, {"x": 1}, prompt=prompt)
        reward = ServiceReward(f"{box}remote", {"url": url, "compat": "slime"})
        ours = await reward.score(case)
        given = await theirs(url, f"{box}remote_rm", case)
        assert ours == (given["reward"] if isinstance(given, dict) else given)
        (path, _, sent), (slimes_path, _, slimes) = server.seen[-2:]
        assert (path, list(sent.items())) == (slimes_path, list(slimes.items()))
        await reward.service.aclose()
    for reply in NO_NUMBERS:
        case = Case("a", reply, prompt="Q")
        reward = ServiceReward("remote", {"url": url, "compat": "slime"})
        with pytest.raises(RewardFailure, match="remote: POST"):
            await reward.score(case)
        given = await theirs(url, "remote_rm", case)
        assert not isinstance(given, int | float) or given != given
        await reward.service.aclose()
