"""`llm_judge` against a real server that answers chat requests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")

from scoring_server import ScoringServer, Serve, chats, completion, hangs, says

from retrain.errors import ConfigError, DataError, RewardFailure
from retrain.reward.hub.cases import Case
from retrain.reward.hub.judge import Judge
from retrain.reward.hub.judge_settings import JudgeSettings
from retrain.reward.hub.pool import close_pools
from retrain.reward.hub.service_faults import FaultKind, ServiceFailure

CASE = Case("Paris.", "Paris", {"topic": "capitals"}, prompt="Capital of France?")


def judge_of(server: ScoringServer, **params: Any) -> Judge:
    return Judge(
        JudgeSettings(**{"base_url": f"{server.url}/v1/", "model": "m", "backoff": 0.01, **params})
    )


async def test_the_score_is_scaled_from_0_to_1(serve: Serve, monkeypatch: Any) -> None:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    server = serve(chats("Good. [[7]]"))
    judge = judge_of(server, api_key_env="JUDGE_KEY", request={"top_p": 0.5, "max_tokens": None})
    assert await judge(CASE) == pytest.approx(6 / 9)
    ((path, headers, body),) = server.seen
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer k-123"
    assert (body["model"], body["temperature"], body["top_p"]) == ("m", 0.0, 0.5)
    assert "max_tokens" not in body
    assert "Paris." in body["messages"][1]["content"]
    await judge.aclose()


@pytest.mark.parametrize(
    ("params", "reply", "score"),
    [
        ({}, "I would say [[3]], no: [[5.5]].", 0.5),
        ({}, "<think>[[10]]</think> [[1]]", 0.0),
        ({"lowest": -1.0, "highest": 1.0}, "[[-1]]", 0.0),
        ({"answer": "json"}, 'Fine: ```json\n{"score": 10, "why": {"a": 1}}\n```', 1.0),
        ({"answer": "json"}, '{"score": 1} {"other": {"score": "5.5"}}', 0.5),
        ({"answer": "json"}, 'So: {"score": 10, "parts": [{"score": 1}, {"score": 2}]} {x}', 1.0),
        ({"answer": "json"}, '{"score": 10} then {"score": 1, "style": {"score": 10}}', 0.0),
        ({"answer": "json", "score_key": "mark"}, '{"score": 1, "mark": 10}', 1.0),
        ({"answer": "pattern", "pattern": r"Score: (\d+)/10"}, "Score: 2/10\nScore: 10/10", 1.0),
    ],
)
async def test_a_score_is_read_in_the_form_that_was_asked_for(
    serve: Serve, params: dict[str, Any], reply: str, score: float
) -> None:
    judge = judge_of(serve(chats(reply)), **params)
    assert await judge(CASE) == score
    await judge.aclose()


@pytest.mark.parametrize(
    ("params", "reply", "message"),
    [
        ({}, "It is good, 8 out of 10.", "no score in the judge's reply; it came: 'It is good"),
        ({}, "[[11]]", "score is 11, not from 1 to 10"),
        ({}, "[[nan]] [[1e3]] [[]]", "no score"),
        ({}, "", "no score"),
        ({"answer": "json"}, '{"score": "high"} {"score": NaN} {', "no score"),
        ({"answer": "json"}, "{" * 30_000, "no score"),
        ({"answer": "pattern", "pattern": r"Score: (\S+)"}, "Score: high", "no score"),
    ],
)
async def test_prose_is_a_failure_after_one_more_question(
    serve: Serve, params: dict[str, Any], reply: str, message: str
) -> None:
    server = serve(chats(reply))
    judge = judge_of(server, **params)
    with pytest.raises(ServiceFailure, match=message.replace("(", r"\(")) as failure:
        await judge(CASE)
    assert failure.value.kind is FaultKind.NO_SCORE
    assert len(server.seen) == 2
    again = server.bodies()[1]["messages"]
    assert [m["role"] for m in again] == ["system", "user", "assistant", "user"]
    assert "nothing else" in again[-1]["content"]
    assert judge.tally.totals()["replies_without_score"] == 2
    await judge.aclose()


async def test_a_score_that_comes_at_the_second_question_counts(serve: Serve) -> None:
    judge = judge_of(serve(chats("Quite good.", "[[10]]")))
    assert await judge(CASE) == 1.0
    await judge.aclose()


async def test_a_pattern_that_explodes_is_ended(serve: Serve) -> None:
    judge = judge_of(serve(chats("a" * 40 + "!")), answer="pattern", pattern=r"((a|a)*)$")
    with pytest.raises(RewardFailure, match="no answer within 2 s"):
        await judge(CASE)
    await judge.aclose()
    close_pools()


@pytest.mark.parametrize("reply", [{}, {"choices": []}, {"choices": [{"message": 3}]}, [1], "x"])
async def test_a_reply_that_is_no_chat_is_a_failure(serve: Serve, reply: Any) -> None:
    server = serve(says(reply))
    judge = judge_of(server)
    with pytest.raises(ServiceFailure, match=f"POST {server.url}/v1/chat/completions: "):
        await judge(CASE)
    await judge.aclose()


async def test_equal_questions_are_asked_once(serve: Serve) -> None:
    server = serve(chats("[[4]]"))
    judge = judge_of(server, price_in=1.0, price_out=2.0)
    other = Case("Rome.", "Paris", {}, prompt="Capital of France?")
    given = await asyncio.gather(*(judge(case) for case in [CASE] * 8 + [other] * 8))
    assert len(set(given)) == 1
    assert len(server.seen) == 2
    assert await judge(CASE) == given[0]
    counted = judge.measured()
    assert counted["cache_hits"] == 15
    assert (counted["tokens_in"], counted["tokens_out"]) == (200, 20)
    assert counted["cost"] == counted["cost_total"] == pytest.approx((200 + 40) / 1e6)
    assert judge.measured()["cost"] == 0
    assert "tokens_in 200" in judge.summary()
    await judge.aclose()


async def test_one_who_leaves_does_not_end_a_question_that_others_wait_for(serve: Serve) -> None:
    server = serve(chats("[[10]]"))
    judge = judge_of(server, concurrency=1)
    waiting = [asyncio.ensure_future(judge(CASE)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    assert await waiting[1] == await waiting[2] == 1.0
    server.always = hangs
    other = Case("Rome.", prompt="Q")
    left = asyncio.ensure_future(judge(other))
    await asyncio.sleep(0.05)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    server.always = chats("[[1]]")
    assert await judge(other) == 0.0
    await judge.aclose()


async def test_without_a_cache_every_question_is_asked(serve: Serve) -> None:
    server = serve(chats("[[10]]"))
    judge = judge_of(server, cache=False)
    assert await asyncio.gather(*(judge(CASE) for _ in range(3))) == [1.0] * 3
    assert len(server.seen) == 3
    await judge.aclose()


async def test_a_file_keeps_scores_beyond_the_run_and_never_failures(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "scores.jsonl"
    server = serve(chats("no", "no", "[[10]]"))
    params = {"cache_file": str(path)}
    first = judge_of(server, **params)
    with pytest.raises(ServiceFailure):
        await first(CASE)
    assert path.read_text() == ""
    assert await first(CASE) == 1.0
    await first.aclose()
    with path.open("a") as file:
        file.write('{"key": "ab')  # a crash in the middle of a line
    second = judge_of(server, **params)
    assert await second(CASE) == 1.0
    assert len(server.seen) == 3
    assert await second(Case("other", prompt="Q")) == 1.0
    await second.aclose()
    third = judge_of(server, **params)
    assert await third(Case("other", prompt="Q")) == 1.0
    assert await judge_of(server, **params, model="n")(CASE) == 1.0
    assert await judge_of(server, **params, highest=20.0)(CASE) < 1.0
    assert len(server.seen) == 6


async def test_a_cache_that_cannot_be_written_costs_no_score(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "scores.jsonl"
    path.parent.mkdir()
    judge = judge_of(serve(chats("[[10]]")), cache_file=str(path))
    path.unlink()
    path.parent.rmdir()
    assert await judge(CASE) == 1.0
    assert judge.measured()["cache_errors"] == 1
    await judge.aclose()


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"budget": 0.00025, "price_in": 1.0, "price_out": 1.0}, "the budget of 0.00025 is spent"),
        ({"budget_tokens": 221}, r"the budget of 221 tokens is spent \(330\)"),
    ],
)
async def test_a_budget_that_is_spent_is_a_failure_without_a_request(
    serve: Serve, params: dict[str, Any], reason: str
) -> None:
    server = serve(chats("[[10]]"))
    judge = judge_of(server, **params)
    for n in range(3):
        assert await judge(Case("x" * n, prompt="Q")) == 1.0
    with pytest.raises(ServiceFailure, match=reason) as failure:
        await judge(Case("xxxx", prompt="Q"))
    assert failure.value.kind is FaultKind.BUDGET
    assert await judge(Case("x", prompt="Q")) == 1.0
    assert len(server.seen) == 3
    await judge.aclose()


async def test_a_budget_needs_a_server_that_counts(serve: Serve) -> None:
    judge = judge_of(serve(chats("[[10]]", usage=None)), budget_tokens=10)
    with pytest.raises(ServiceFailure, match="no budget can be kept"):
        await judge(CASE)
    await judge.aclose()


async def test_a_missing_label_and_an_endless_response_are_failures_unasked(serve: Serve) -> None:
    server = serve(chats("[[10]]"))
    judge = judge_of(server, rubric="{label}: {response}")
    with pytest.raises(RewardFailure, match=r"asks for \{label\}, and the case has none"):
        await judge(Case("x"))
    with pytest.raises(ServiceFailure, match="a question of 1,000,"):
        await judge(Case("x" * 10**6, "1"))
    assert not server.seen
    assert judge.tally.totals()["failures/case"] == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"rubric": "Grade it."}, r"no \{response\}"),
        ({"rubric": "{respones}"}, r"no placeholder \{respones\}; did you mean 'response'"),
        ({"lowest": 5.0, "highest": 5.0}, "lowest is 5"),
        ({"answer": "pattern"}, "set pattern with answer: pattern"),
        ({"pattern": "x"}, "set pattern with answer: pattern"),
        ({"answer": "pattern", "pattern": "x"}, "no group"),
        ({"answer": "pattern", "pattern": "(x"}, "pattern: "),
        ({"budget": 1.0}, "needs price_in and price_out"),
        ({"price_in": -1.0}, "price_in is -1"),
        ({"cache": False, "cache_file": "x"}, "needs cache: true"),
        ({"cache_file": "/nowhere/x"}, "cache_file: /nowhere/x"),
        ({"reasks": -1}, "reasks is -1"),
        ({"base_url": "api.example.com"}, "is no URL"),
    ],
)
def test_a_setting_that_cannot_be_is_named(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Judge(JudgeSettings(**{"base_url": "http://127.0.0.1/v1", "model": "m", **params}))


def test_a_file_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps(completion("x")) + "\n" + "{}\n")
    with pytest.raises(DataError, match="holds no scores of a judge"):
        Judge(JudgeSettings(base_url="http://127.0.0.1/v1", model="m", cache_file=str(path)))


async def test_token_counts_that_cannot_be_are_not_counted(serve: Serve) -> None:
    judge = judge_of(serve(chats("[[10]]", usage=(10**400, 10**400))), price_in=1.0)
    assert await judge(CASE) == 1.0
    assert "tokens_in" not in judge.tally.totals()
    assert judge.summary() == "calls 1, requests 1"
    await judge.aclose()
