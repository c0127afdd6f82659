"""`retrain reward` with a server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")

from scoring_server import ScoringServer, chats, scores

from retrain.cli.main import app

ROWS = [
    {"prompt": "2+2?", "response": "It is \\boxed{4}", "label": "4"},
    {"prompt": "3+3?", "response": "6", "label": None},
    {"prompt": [{"role": "user", "content": "1+1?"}], "response": None, "label": 2},
]


@pytest.fixture
def server() -> Iterator[ScoringServer]:
    started = ScoringServer(scores(lambda item: len(item["response"] or "") / 10))
    yield started
    started.close()


def run(folder: Path, *options: str) -> Result:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return CliRunner().invoke(app, ["reward", str(path), *options])


def test_a_server_scores_a_file(tmp_path: Path, server: ScoringServer) -> None:
    result = run(
        tmp_path, "--reward", "remote", "--param", f"url={server.url}", "--param", "batch_size=8",
        "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [row["reward"] for row in document["rows"]] == [1.5, 0.1, 0.0]
    assert list(document["modes"]) == ["default"]
    assert document["modes"]["default"]["counted"]["requests"] == 1
    assert server.bodies()[0]["items"][2]["prompt"] == ROWS[2]["prompt"]


def test_slimes_protocol_and_a_box(tmp_path: Path, server: ScoringServer) -> None:
    url = f"url={server.url}"
    result = run(tmp_path, "--reward", "boxed_remote", "--param", url, "--json")
    assert [row["reward"] for row in json.loads(result.stdout)["rows"]] == [0.1, 0.0, 0.0]
    result = run(
        tmp_path, "--reward", "boxed_remote", "--param", url, "--compat", "slime", "--json"
    )
    assert json.loads(result.stdout)["mode"] == "slime"
    sent = [body for body in server.bodies() if "metadata" not in body]
    assert sorted(str(body["response"]) for body in sent) == ["6", "It is \\boxed{4}", "None"]


def test_a_judge_shows_what_it_cost(tmp_path: Path, server: ScoringServer) -> None:
    server.always = chats("[[10]]")
    result = run(
        tmp_path, "--reward", "llm_judge", "--param", f"base_url={server.url}", "--param",
        "model=m", "--param", "price_in=2", "--param", "price_out=10",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "mean +1.0000, 0 failed" in result.stdout
    assert re.search(r"tokens_in: +300", result.stdout)
    assert re.search(r"cost: +0\.0009", result.stdout)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("remote",), "--param.url: missing"),
        (("remote", "--param", "url=nowhere"), "is no URL"),
        (("remote", "--param", "url=http://h/", "--param", "batch=2"), "did you mean 'batch_size'"),
        (("remotte", "--param", "url=http://h/"), "did you mean 'remote'"),
        (("llm_judge", "--compat", "slime"), "takes no 'compat'"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    result = run(tmp_path, "--reward", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_server_that_is_not_there_fails_every_row(tmp_path: Path) -> None:
    result = run(
        tmp_path, "--reward", "remote", "--param", "url=http://127.0.0.1:9/", "--param",
        "retries=0", "--reward-key", "points",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "3 failed" in result.stdout
    assert "remote: POST http://127.0.0.1:9/" in result.stdout
