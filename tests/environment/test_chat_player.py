"""`name: chat`: an agent that a model behind an address of its own plays."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from nim_match import SECOND

from retrain.environment.registry import make_environment_factory
from retrain.errors import ConfigError, EnvironmentFailure
from retrain.types import Action, Task

pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")


class Server:
    """Answers chat requests with what it is told to, in order; the last answer stays.

    Attributes:
        asked: The bodies that came, with the header of each as `authorization`.
        answers: (status, body) pairs.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: list[tuple[int, str]] = [(200, chat("take 1"))]


def chat(text: str | None) -> str:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})


@pytest.fixture
def server() -> Iterator[tuple[Server, str]]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append({**body, "authorization": self.headers["Authorization"]})
            more = len(state.answers) > 1
            status, said = state.answers.pop(0) if more else state.answers[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serve = partial(listening.serve_forever, poll_interval=0.01)
    threading.Thread(target=serve, daemon=True).start()
    yield state, f"http://127.0.0.1:{listening.server_port}/v1/"
    listening.shutdown()
    listening.server_close()


async def play(url: str, *, moves: int = 2, seed: int = 5, **player: Any) -> list[str]:
    """What the trained agent is told after each of its moves."""
    spec = {"name": "chat", "base_url": url, "model": "little", **player}
    seat = make_environment_factory("nim_match:Nim", {"stones": 12}, {SECOND: spec})()
    told = []
    try:
        await seat.reset(Task("t", "Play."), seed)
        for _ in range(moves):
            result = await seat.step(Action("take 2"))
            told.append(result.observation.messages[0].content)
    finally:
        await seat.close()
    return told


async def test_it_is_told_its_own_side_and_sends_the_key(
    server: tuple[Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, url = server
    monkeypatch.setenv("THEIR_KEY", "k-123")
    told = await play(url, api_key_env="THEIR_KEY", system_prompt="Be brief.", temperature=0.5)
    assert told == ["second takes 1. 9 are left.", "second takes 1. 6 are left."]
    first, second = state.asked
    assert first["authorization"] == "Bearer k-123"
    assert (first["model"], first["temperature"]) == ("little", 0.5)
    assert first["messages"][0] == {"role": "system", "content": "Be brief."}
    assert "You play second." in first["messages"][-1]["content"]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    said, heard = second["messages"][len(first["messages"]) :]
    assert said == {"role": "assistant", "content": "take 1"}
    assert "first takes 2." in heard["content"]


async def test_a_seed_follows_from_the_match_and_the_move(server: tuple[Server, str]) -> None:
    state, url = server
    for seed in (5, 5, 6):
        await play(url, seed=seed)
    seeds = [body["seed"] for body in state.asked]
    assert seeds[:2] == seeds[2:4] and len(set(seeds)) == 4
    state.asked.clear()
    await play(url, request={"seed": None, "top_k": 7})
    assert all("seed" not in body and body["top_k"] == 7 for body in state.asked)


async def test_what_may_pass_is_tried_again(
    server: tuple[Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrain.environment.chat_player._BACKOFF", 0.01)
    state, url = server
    state.answers = [(503, "busy"), (429, "later"), (200, chat("take 3"))]
    assert await play(url, moves=1) == ["second takes 3. 7 are left."]
    assert len(state.asked) == 3


@pytest.mark.parametrize(
    ("answer", "said", "asked"),
    [
        ((400, "no such model"), "HTTP 400: no such model", 1),
        ((500, "k-123 broke"), "HTTP 500: \\*\\*\\* broke", 2),
        ((200, "[]"), "expected a chat completion", 1),
        ((200, "{"), "expected a chat completion", 1),
    ],
)
async def test_a_server_that_fails_fails_the_match(
    server: tuple[Server, str],
    answer: tuple[int, str],
    said: str,
    asked: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("retrain.environment.chat_player._BACKOFF", 0.01)
    monkeypatch.setenv("THEIR_KEY", "k-123")
    state, url = server
    state.answers = [answer]
    with pytest.raises(EnvironmentFailure, match=said) as caught:
        await play(url, retries=1, api_key_env="THEIR_KEY")
    assert len(state.asked) == asked
    assert "k-123" not in str(caught.value)


async def test_an_answer_without_text_is_an_empty_move(server: tuple[Server, str]) -> None:
    state, url = server
    state.answers = [(200, chat(None))]
    assert await play(url, moves=1) == ["second takes 1. 9 are left."]


async def test_nobody_there_is_a_failure_too() -> None:
    with pytest.raises(EnvironmentFailure, match="ClientConnectorError"):
        await play("http://127.0.0.1:9/v1", retries=0)


async def test_a_key_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THEIR_KEY", raising=False)
    with pytest.raises(ConfigError, match="environment variable 'THEIR_KEY' is not set"):
        await play("http://127.0.0.1:9/v1", api_key_env="THEIR_KEY")
