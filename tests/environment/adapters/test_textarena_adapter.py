"""`type: textarena`: one seat is the model's, the others are scripts' or engines'."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("textarena", reason="needs TextArena: pip install 'retrain[textarena]'")

from textarena.envs.registration import ENV_REGISTRY

from retrain.environment import make_environment_factory
from retrain.environment.rewriting import rewrites_history
from retrain.errors import ConfigError, EnvironmentFailure, MissingDependency
from retrain.testing import EnvironmentSuite
from retrain.types import Action, StepResult, Task

HERE = __name__
HEARD: list[str] = []


def lowest(observation: str, *, first: int = 0) -> str:
    """Takes the lowest free field."""
    HEARD.append(observation)
    free = re.findall(r"'\[(\d)\]'", observation.rpartition("Available Moves")[2])
    return f"[{min(n for n in map(int, free) if n >= first)}]"


class Scripted:
    """One for each seat and episode."""

    def __init__(self, moves: list[str]) -> None:
        self._moves = iter(moves)

    def __call__(self, observation: str) -> str:
        return next(self._moves)


TOE = {"id": "TicTacToe-v0", "players": 2, "opponent": f"{HERE}:lowest"}


class TestTicTacToe(EnvironmentSuite):
    answer = "[4]"

    def make_environment(self) -> Any:
        return make_environment_factory("textarena", TOE)()


@pytest.mark.soak
class TestKuhnPoker(EnvironmentSuite):
    """Deals cards; the seat hangs on the seed."""

    answer = "[check]"

    def make_environment(self) -> Any:
        opponent = {"opponent": f"{HERE}:Scripted", "opponent_config": {"moves": ["[check]"] * 20}}
        config = {"id": "KuhnPoker-v0-short", "players": 2, "seat": None, **opponent}
        return make_environment_factory("textarena", config)()


@pytest.mark.soak
class TestWholeObservations(EnvironmentSuite):
    answer = "[4]"

    def make_environment(self) -> Any:
        return make_environment_factory("textarena", {**TOE, "observations": "whole"})()


@pytest.mark.soak
class TestGame2048Alone(EnvironmentSuite):
    """Draws a tile at every move; one player."""

    answer = "[up]"

    def make_environment(self) -> Any:
        return make_environment_factory("textarena", {"id": "2048-v0-easy"})()


async def play(config: dict[str, Any], actions: list[str], seed: int = 3) -> list[StepResult]:
    environment = make_environment_factory("textarena", config)()
    results = []
    try:
        await environment.reset(Task("t", ""), seed)
        for text in actions:
            results.append(await environment.step(Action(text)))
            if results[-1].terminated:
                break
    finally:
        await environment.close()
    return results


@pytest.mark.parametrize(
    ("moves", "rewards"),
    [
        (["[4]", "[3]", "[5]"], [0, 0, 1]),
        (["[3]", "[4]", "[8]"], [0, 0, -1]),
        (["[0]", "[0]", "not a move"], [0, 0, -1]),
    ],
    ids=["won", "lost", "invalid"],
)
async def test_the_seat_s_reward_comes_at_the_end(moves: list[str], rewards: list[float]) -> None:
    results = await play(TOE, moves)

    assert [r.reward for r in results] == rewards
    assert [r.terminated for r in results] == [False, False, True]
    assert results[-1].info["success"] is (rewards[-1] > 0)
    assert results[-1].info["seat"] == 0


async def test_the_model_is_told_what_is_new_without_its_own_moves() -> None:
    environment = make_environment_factory("textarena", TOE)()
    prompt = await environment.reset(Task("t", "Win."), 3)
    HEARD.clear()
    reply = (await environment.step(Action("I take [4]"))).observation
    await environment.close()

    assert prompt.messages[0].content.startswith("Win.\n\n[GAME] You are Player 0 in Tic Tac Toe")
    text = reply.messages[0].content
    assert "[Player 1] [0]" in text
    assert "I take" not in text
    assert "You are Player" not in text
    assert "[Player 0] I take [4]" in HEARD[0]
    assert HEARD[0].startswith("[GAME] You are Player 1")


async def test_the_other_seat_is_played_from_the_opponent_s_move_on() -> None:
    environment = make_environment_factory("textarena", {**TOE, "seat": 1})()
    prompt = await environment.reset(Task("t", ""), 3)
    await environment.close()

    assert "You are Player 1" in prompt.messages[0].content
    assert "[Player 0] [0]" in prompt.messages[0].content


async def test_a_drawn_seat_is_the_group_s() -> None:
    seats = set()
    for seed in range(8):
        for _ in range(2):
            environment = make_environment_factory("textarena", {**TOE, "seat": None})()
            await environment.reset(Task("t", ""), seed)
            seats.add((seed, environment.world.seat))
            await environment.close()

    assert len(seats) == 8
    assert {seat for _, seat in seats} == {0, 1}


async def test_whole_observations_are_prompts_of_their_own() -> None:
    config = {**TOE, "observations": "whole"}
    environment = make_environment_factory("textarena", config)()
    prompt = await environment.reset(Task("t", "Win."), 3)
    reply = (await environment.step(Action("[4]"))).observation
    await environment.close()

    assert rewrites_history("textarena", config)
    assert not rewrites_history("textarena", TOE)
    assert reply.rewrite
    (message,) = reply.messages
    assert message.content.startswith("Win.\n\n")
    assert "You are Player 0" in message.content
    assert len(prompt.messages) == 1


async def test_games_side_by_side_are_those_that_each_is_alone() -> None:
    moves = [f"[{move}]" for move in ("up", "left", "down", "right") * 4]
    config = {"id": "2048-v0-easy"}
    random.seed(7)
    alone = [await play(config, moves, seed) for seed in range(6)]
    together = await asyncio.gather(*(play(config, moves, seed) for seed in range(6)))

    assert list(together) == alone
    assert len({str(results) for results in alone}) == 6


@pytest.mark.soak
async def test_an_engine_behind_an_address_sits_opposite(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({**body, "path": self.path})
            message = {"role": "assistant", "content": lowest(body["messages"][-1]["content"])}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            about = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
            said = json.dumps({**about, "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        opponent_config = {
            "model_name": "m",
            "base_url": f"http://127.0.0.1:{server.server_port}/v1",
            "temperature": 0.5,
        }
        opponent = {"opponent": "textarena.agents:OpenAIAgent", "opponent_config": opponent_config}
        results = await play({**TOE, **opponent}, ["[4]", "[3]", "[5]"])
        server.shutdown()

    assert [r.reward for r in results] == [0, 0, 1]
    assert [(each["path"], each["temperature"]) for each in asked] == [
        ("/v1/chat/completions", 0.5)
    ] * 2


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"id": "TicTacToe-v1"}, "no game 'TicTacToe-v1'; did you mean 'TicTacToe-v0'"),
        ({"id": "TicTacToe-v0", "players": 2}, "opponent: missing; 1 of the seats need one"),
        ({**TOE, "seat": 2}, "seat: 2 of 2 players"),
        ({**TOE, "opponent": f"{HERE}:lowst"}, "did you mean 'lowest'"),
        ({**TOE, "seat": 1, "opponent": f"{HERE}:Scripted"}, "cannot be made: .*'moves'"),
    ],
)
async def test_what_cannot_be_played_is_named(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        await play(config, ["[0]"])


class Drawing:
    """Draws its field."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, observation: str) -> str:
        free = re.findall(r"'\[(\d)\]'", observation.rpartition("Available Moves")[2])
        return f"[{self._random.choice(free)}]"


async def test_an_opponent_that_takes_a_seed_plays_the_same_game_for_the_same_seed() -> None:
    async def game(seed: int, **config: Any) -> str:
        return str(await play({**TOE, "opponent": f"{HERE}:Drawing", **config}, ["[4]"], seed))

    games = [await game(seed) for seed in range(20)]
    assert games == [await game(seed) for seed in range(20)]
    assert len(set(games)) > 3
    assert len({await game(seed, opponent_config={"seed": 1}) for seed in range(20)}) == 1


async def test_an_opponent_that_raises_fails_the_episode() -> None:
    config = {**TOE, "opponent": f"{HERE}:Scripted", "opponent_config": {"moves": []}}

    with pytest.raises(EnvironmentFailure, match="StopIteration"):
        await play(config, ["[4]"])


def test_every_game_but_one_has_the_form_that_is_played() -> None:
    plain = {name for name in ENV_REGISTRY if not name.endswith(("-raw", "-train"))}

    assert len(plain) > 200
    assert {name for name in plain if f"{name}-raw" not in ENV_REGISTRY} == {"BabyAiText-v0"}


def test_its_absence_gives_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrain.environment.adapters.loading.find_spec", lambda _: None)

    with pytest.raises(MissingDependency, match=r"pip install 'retrain\[textarena\]'"):
        make_environment_factory("textarena", TOE)()
