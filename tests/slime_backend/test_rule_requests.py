"""What is sent to slime's engines, and what becomes of an engine that cannot be trusted."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from slime_checkout import run, slime_root

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.engine import PATIENCE, RouterEngine, SlimeSampling
from backends.slime.framework import Framework
from retrain.engine.http_engine import TurnRequest
from retrain.errors import BackendFailure, ConfigError, EngineFailure

RAW = {"temperature": 1.0, "max_new_tokens": 60}
QUICK = replace(PATIENCE, retries=2, backoff=0.01)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router that does not answer is given up in no time."""
    monkeypatch.setattr("backends.slime.engine.PATIENCE", QUICK)


@pytest.fixture
def config(slime_config: Any) -> Any:
    return slime_config(max_tokens_per_turn=20, sections={"rollout": {"engine_retries": 0}})


def play(args: Any) -> Any:
    sample = plugin.DataSource(args).get_samples(1)[0][0]
    return asyncio.run(plugin.generate(args, sample, RAW))


@pytest.mark.parametrize("deterministic", [True, False])
def test_seeds_are_sent_under_deterministic_inference_only(
    config: Any, router_args: Any, served: Any, deterministic: bool
) -> None:
    play(router_args(config, sglang_enable_deterministic_inference=deterministic))
    asked = [body["sampling_params"] for body in served.calls("/generate") if "rid" in body]
    assert asked and all(("sampling_seed" in params) == deterministic for params in asked)


def test_a_routing_key_is_sent_whatever_the_routers_policy(
    config: Any, router_args: Any, served: Any
) -> None:
    """slime itself sends it for a policy only that sglang-router does not have."""
    sample = play(router_args(config, router_policy="cache_aware"))
    keys = {h.get("x-smg-routing-key") for _, h, body in served.seen if "rid" in (body or {})}
    assert keys == {sample.session_id}


@pytest.mark.parametrize("distributed", [True, False])
def test_slimes_own_post_sends_the_turns_where_it_spreads_them_over_actors(
    config: Any, router_args: Any, monkeypatch: pytest.MonkeyPatch, distributed: bool
) -> None:
    async def post(url: str, payload: Any, *, headers: Mapping[str, str]) -> Any: ...

    monkeypatch.setattr(Framework, "post", lambda framework: post)
    engine = context_of(router_args(config, use_distributed_post=distributed)).engine
    assert isinstance(engine, RouterEngine)
    assert engine._post is (post if distributed else None)


@pytest.mark.slime
def test_our_client_is_as_patient_as_slimes_own() -> None:
    found = run(
        [
            "-c",
            "import inspect; from slime.utils.http_utils import _post, post\n"
            "print(inspect.signature(post).parameters['max_retries'].default)\n"
            "print('asyncio.sleep(1)' in inspect.getsource(_post))",
        ],
        slime_root(),
    )
    assert found.stdout.split() == [str(PATIENCE.retries + 1), "True"], found.stderr
    assert PATIENCE.backoff == PATIENCE.longest_wait == 1.0


async def test_slimes_own_post_is_given_the_whole_request() -> None:
    sent = []

    async def post(url: str, payload: Any, *, headers: Mapping[str, str]) -> Any:
        sent.append((url, payload, dict(headers)))
        raise OSError("all sixty tries are over")

    engine = RouterEngine("http://127.0.0.1:1", post=post, routed_experts=True)
    engine._send_seeds = True
    params = SlimeSampling(5, raw={"no_stop_trim": True}, session_id="key")
    request = TurnRequest([1, 2], params, seed=7)
    body = engine._body(request)
    assert body["return_routed_experts"] is True
    with pytest.raises(EngineFailure, match="all sixty tries are over"):
        await engine._ask("http://127.0.0.1:1/generate", body, {"X-SMG-Routing-Key": "key"})
    ((url, payload, headers),) = sent
    assert url.endswith("/generate") and payload["input_ids"] == [1, 2]
    assert headers == {"X-SMG-Routing-Key": "key"}
    await engine.aclose()


def without_logprobs(reply: Any) -> Any:
    kept = {k: v for k, v in reply["meta_info"].items() if k != "output_token_logprobs"}
    return {**reply, "meta_info": kept}


def one_logprob_less(reply: Any) -> Any:
    pairs = reply["meta_info"]["output_token_logprobs"][1:]
    return {**reply, "meta_info": {**reply["meta_info"], "output_token_logprobs": pairs}}


def another_prompt(reply: Any) -> Any:
    return {**reply, "meta_info": {**reply["meta_info"], "prompt_tokens": 3}}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (without_logprobs, "gives no logprobs"),
        (one_logprob_less, "output_ids, and logprobs of"),
        (another_prompt, "answered a prompt of 3 tokens"),
        ("drop", "/generate"),
    ],
)
def test_an_answer_that_cannot_be_trained_on_stops_the_run_and_says_why(
    config: Any, router_args: Any, served: Any, hasty: None, fault: Any, reason: str
) -> None:
    served.faults.extend([fault] * 20)
    with pytest.raises(BackendFailure, match=rf"(?s){reason}.*rollout.failure.engine"):
        play(router_args(config))
    assert not served.running, "nothing is left in flight"


def test_an_engine_that_dies_in_an_episode_stops_the_run(
    config: Any, router_args: Any, served: Any, hasty: None
) -> None:
    served.faults.extend([None, "hang"])
    killer = threading.Thread(target=kill_at_the_second_turn, args=[served])
    killer.start()
    with pytest.raises(BackendFailure, match=r"(?s)engine: .*rollout.failure.engine"):
        play(router_args(config))
    killer.join()


def kill_at_the_second_turn(served: Any) -> None:
    while len([body for body in served.calls("/generate") if "rid" in body]) < 2:
        time.sleep(0.01)
    served.kill()


def test_a_router_where_nobody_listens_is_named(config: Any, slime_args: Any, hasty: None) -> None:
    args = slime_args(config, sglang_router_ip="127.0.0.1", sglang_router_port=9)
    with pytest.raises(BackendFailure, match=r"127\.0\.0\.1:9"):
        play(args)


def test_another_models_vocabulary_is_refused(
    config: Any, router_args: Any, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = served.served.encode
    monkeypatch.setattr(served.served, "encode", lambda text: [*encode(text), 7])
    with pytest.raises(ConfigError, match="has another vocabulary than"):
        play(router_args(config))
