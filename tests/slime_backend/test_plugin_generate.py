"""`generate`: one whole episode for one sample of slime's, over a server of SGLang's protocol."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from typing import Any

import pytest

from backends.slime import plugin
from backends.slime.context import context_of
from backends.slime.engine import SlimeSampling
from backends.slime.framework import framework
from backends.slime.generating import generate_episode
from retrain.engine.http_engine import TurnRequest
from retrain.errors import BackendFailure
from retrain.types import Segment

RAW = {
    "temperature": 0.8,
    "top_p": 1.0,
    "top_k": -1,
    "max_new_tokens": 90,
    "stop": None,
    "stop_token_ids": None,
    "skip_special_tokens": False,
    "no_stop_trim": True,
    "spaces_between_special_tokens": False,
}


@pytest.fixture
def config(slime_config: Any) -> Any:
    return slime_config(max_tokens_per_turn=20)


def drawn(args: Any, count: int = 1) -> list[list[Any]]:
    groups: list[list[Any]] = plugin.DataSource(args).get_samples(count)
    return groups


def play(args: Any, sample: Any, raw: Any = RAW, **options: Any) -> Any:
    return asyncio.run(plugin.generate(args, sample, raw, **options))


def check_shape(sample: Any) -> None:
    assert len(sample.loss_mask) == len(sample.rollout_log_probs) == sample.response_length
    assert 1 <= sample.response_length < len(sample.tokens)


def test_sample_holds_what_the_server_wrote_turn_by_turn(
    config: Any, router_args: Any, served: Any
) -> None:
    args = router_args(config)
    sample = drawn(args)[0][0]
    sample.session_id = "the-key"
    assert play(args, sample) is sample
    check_shape(sample)
    asked = served.calls("/generate")[2:]
    budgets = [body["sampling_params"]["max_new_tokens"] for body in asked]
    assert budgets == [20, 20, 20][: len(asked)]
    for body in asked[1:]:
        assert sample.tokens[: len(body["input_ids"])] == body["input_ids"], "one growing stream"
    keys = {h["x-smg-routing-key"] for p, h, _ in served.seen if p == "/generate" and "rid" in _}
    assert keys == {"the-key"} and sample.session_id == "the-key"
    assert sample.weight_versions == ["default"] * len(asked)
    sent = sum(len(body["input_ids"]) for body in asked)
    assert sample.prefix_cache_info.total_prompt_tokens == sent
    assert len(asked) == 3 and sample.prefix_cache_info.cached_tokens > 0
    assert sample.reward is not None and sample.rollout_id == sample.index
    assert sum(sample.loss_mask) == sum(
        turn["output"] for turn in sample.metadata["retrain"]["turns"]
    )


def test_used_tokens_are_taken_off_and_slimes_parameters_stay(
    slime_config: Any, router_args: Any, served: Any
) -> None:
    args = router_args(slime_config())
    raw = {**RAW, "max_new_tokens": 70, "temperature": 1.0}
    given = copy.deepcopy(raw)
    sample = play(args, drawn(args)[0][0], raw)
    assert raw == given, "slime's own parameters are not changed"
    asked = served.calls("/generate")[2:]
    used = [len(body["input_ids"]) - len(asked[0]["input_ids"]) for body in asked]
    left = [body["sampling_params"]["max_new_tokens"] for body in asked]
    assert left == [70 - tokens for tokens in used]
    assert sample.response_length <= 70
    for body in asked:
        assert body["sampling_params"]["no_stop_trim"] is True
        assert body["sampling_params"]["temperature"] == 1.0
        assert "sampling_seed" not in body["sampling_params"]


def test_custom_params_and_slimes_seed_are_sent(config: Any, router_args: Any) -> None:
    """Only a patched SGLang takes the custom parameter, so the request itself is looked at."""
    args = router_args(config, sglang_enable_deterministic_inference=True, rollout_top_p=0.9)
    context = context_of(args)
    custom = {"custom_params": {"return_top_p_token_ids": True}}
    request = TurnRequest([1], SlimeSampling(5, raw={**RAW, **custom, "sampling_seed": 11}), seed=7)
    sent = context.engine._body(request)["sampling_params"]  # type: ignore[attr-defined]
    assert (sent["sampling_seed"], sent["max_new_tokens"]) == (11, 5)
    assert sent["custom_params"] == custom["custom_params"]
    assert context.sampling().raw == custom, "generate_rollout asks for it too"


def test_no_tokens_left_is_truncated(config: Any, router_args: Any) -> None:
    args = router_args(config)
    sample = play(args, drawn(args)[0][0], {**RAW, "max_new_tokens": 0})
    assert sample.status == type(sample).Status.TRUNCATED
    assert sample.remove_sample and not any(sample.loss_mask) and sample.reward == 0.0
    check_shape(sample)


@pytest.mark.parametrize("status", ["COMPLETED", "TRUNCATED"])
def test_sample_that_is_over_is_returned_as_it_is(
    config: Any, router_args: Any, served: Any, status: str
) -> None:
    make = framework().sample
    sample = make(index=0, tokens=[1, 2], status=make.Status[status], reward=0.5)
    before = copy.deepcopy(sample)
    assert play(router_args(config), sample) is sample
    assert sample == before
    assert not served.seen


def test_aborted_episode_has_no_reward_and_is_played_anew(
    config: Any, router_args: Any, served: Any
) -> None:
    args = router_args(config)
    sample = drawn(args)[0][0]
    served.faults.append(abort_answer)
    play(args, sample)
    assert sample.status == type(sample).Status.ABORTED
    assert sample.reward is None
    assert sample.response_length == 3
    play(args, sample)
    check_shape(sample)
    assert sample.status != type(sample).Status.ABORTED
    assert sample.reward is not None and not sample.remove_sample
    assert len(sample.weight_versions) == len(sample.metadata["retrain"]["turns"])
    whole = drawn(args)[0][0]
    play(args, whole)
    assert whole.response_length > 0


def abort_answer(reply: Any) -> Any:
    """The answer of a server that was told to abort after three tokens."""
    meta = reply["meta_info"]
    pairs = meta["output_token_logprobs"][:3]
    figures = {**meta, "finish_reason": {"type": "abort"}, "output_token_logprobs": pairs}
    return {**reply, "output_ids": reply["output_ids"][:3], "meta_info": figures}


async def test_cancelled_request_is_ended_on_the_server(
    config: Any, router_args: Any, served: Any
) -> None:
    args = router_args(config)
    served.faults.append("hang")
    playing = asyncio.create_task(plugin.generate(args, drawn(args)[0][0], RAW))
    while "/generate" not in [path for path, _, body in served.seen if "rid" in (body or {})]:
        await asyncio.sleep(0.01)
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    (request,) = [body for body in served.calls("/generate") if "rid" in body]
    assert {"rid": request["rid"]} in served.calls("/abort_request")


def test_evaluation_has_seeds_of_its_own(config: Any, slime_args: Any) -> None:
    args = slime_args(config)
    trained, held_out = drawn(args)[0][0], drawn(args)[0][0]
    play(args, trained)
    play(args, held_out, evaluation=True)
    splits = [s.metadata["retrain"]["trajectory"]["seed"]["split"] for s in (trained, held_out)]
    assert splits == ["train", "eval"]
    assert trained.tokens != held_out.tokens


def test_episode_of_two_segments_becomes_siblings(
    config: Any, slime_args: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = slime_args(config)
    context = context_of(args)
    run = type(context.composition.environment).run

    async def split(self: Any, *given: Any, **named: Any) -> Any:
        played = await run(self, *given, **named)
        (whole,) = played.segments
        first = replace(whole.turns[0], env_ids=())
        rest = Segment((*whole.prompt_ids, *first.output_ids), whole.turns[1:])
        return replace(played, segments=(Segment(whole.prompt_ids, (first,)), rest))

    monkeypatch.setattr(type(context.composition.environment), "run", split)
    sample = drawn(args)[0][0]
    siblings = asyncio.run(generate_episode(context, args, sample, RAW, False))
    assert [len(s.metadata["retrain"]["turns"]) for s in siblings] == [1, 2]
    assert siblings[0] is sample
    assert {s.rollout_id for s in siblings} == {sample.index}
    assert len({s.reward for s in siblings}) == 1 and siblings[0].reward is not None
    for sibling in siblings:
        check_shape(sibling)


def test_engine_that_cannot_answer_ends_the_run_by_its_policy(
    config: Any, router_args: Any, served: Any
) -> None:
    args = router_args(config)
    sample = drawn(args)[0][0]
    served.faults.extend([400, 400, 400])
    with pytest.raises(BackendFailure, match=r"the policy of\s+rollout.failure.engine"):
        play(args, sample)
