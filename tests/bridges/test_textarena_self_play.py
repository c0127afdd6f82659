"""`type: textarena` with `seat: all`: one game, every seat an episode that is trained."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

pytest.importorskip("textarena", reason="needs TextArena: pip install 'retrain[textarena]'")

from bridges import EnvironmentBridge, EpisodeLimits, RewardBridge, RolloutBridge, RolloutSettings
from retrain.engine.base import SamplingParams
from retrain.engine.scripted import ScriptedEngine
from retrain.environment.registry import make_environment_factory
from retrain.environment.rewriting import rewrites_history
from retrain.errors import ConfigError
from retrain.rendering import DeltaRenderer
from retrain.reward.calculator import RewardCalculator
from retrain.reward.components import ComponentKind, RewardComponent
from retrain.rollout.request import GroupRequest
from retrain.sample import Status
from retrain.types import Group, StopReason, Task

TOE = {"id": "TicTacToe-v0", "players": 2, "seat": "all"}
REQUESTS = [GroupRequest(i, Task(f"t{i}", ""), 0) for i in range(2)]


async def play(
    renderer: DeltaRenderer, encode: Any, config: Any = TOE, agents: Any = None, **settings: Any
) -> list[Group]:
    """Plays free fields of the board by the turn's seed."""

    def write(ids: Any, params: Any, session: str, seed: int) -> str:
        said = renderer.decode(ids).rpartition("Available Moves")[2]
        free = re.findall(r"'\[(\d)\]'", said) or ["0"]
        return f"I take [{random.Random(seed).choice(free)}]<|im_end|>"

    factory = make_environment_factory("textarena", config, agents)
    rewards = RewardCalculator([RewardComponent("environment", ComponentKind.ENVIRONMENT)])
    bridge = RolloutBridge(
        EnvironmentBridge(renderer, factory, EpisodeLimits(max_response_len=2000)),
        RewardBridge(rewards),
        ScriptedEngine(write, encode=encode),
        RolloutSettings(SamplingParams(max_tokens=100), n_samples=8, **settings),
    )
    return await bridge.collect(REQUESTS)


async def test_both_seats_of_a_game_are_episodes(renderer: DeltaRenderer, encode: Any) -> None:
    for group in await play(renderer, encode):
        for number in range(0, 8, 2):
            zero, one = group.trajectories[number : number + 2]
            assert (zero.agent, one.agent) == ("player_0", "player_1")
            assert {zero.stop_reason, one.stop_reason} == {StopReason.TERMINATED}
            assert zero.reward == -one.reward  # type: ignore[operator]
            assert [zero.turns[-1].info["seat"], one.turns[-1].info["seat"]] == [0, 1]
            assert len(zero.turns) - len(one.turns) in (0, 1)
            assert "You are Player 1" in renderer.decode(one.segments[0].prompt_ids)
            for mine, theirs in ((zero, one), (one, zero)):
                told = renderer.decode([*mine.segments[0].prompt_ids, *_replies(mine)])
                assert all(turn.action.text in told for turn in theirs.turns[:-1])
                own = "".join(map(renderer.decode, [_replies(mine)]))
                assert f"[Player {mine.turns[-1].info['seat']}] I take" not in own
    assert group.advantages


def _replies(episode: Any) -> list[int]:
    return [token for turn in episode.turns for token in turn.env_ids]


async def test_games_do_not_hang_on_what_plays_beside_them(
    renderer: DeltaRenderer, encode: Any
) -> None:
    def streams(groups: list[Group]) -> Any:
        return [[(t.segments, t.reward) for t in group.trajectories] for group in groups]

    alone = streams(await play(renderer, encode, concurrency=1))
    assert streams(await play(renderer, encode, concurrency=64)) == alone


async def test_whole_observations_make_each_turn_a_segment(
    renderer: DeltaRenderer, encode: Any
) -> None:
    config = {**TOE, "observations": "whole"}
    assert rewrites_history("textarena", config) and not rewrites_history("textarena", TOE)
    (group, _) = await play(renderer, encode, config)
    for episode in group.trajectories:
        assert episode.status is Status.COMPLETED
        assert len(episode.segments) == len(episode.turns)


def lowest(messages: list[dict[str, Any]]) -> str:
    """Takes the lowest free field."""
    free = re.findall(r"'\[(\d)\]'", messages[-1]["content"].rpartition("Available Moves")[2])
    return f"[{min(free)}]"


async def test_a_seat_of_somebody_else_leaves_ordinary_episodes(
    renderer: DeltaRenderer, encode: Any
) -> None:
    agents = {"player_1": f"{__name__}:lowest"}
    (group, _) = await play(renderer, encode, agents=agents)
    assert {episode.status for episode in group.trajectories} == {Status.COMPLETED}
    assert {episode.turns[-1].info["seat"] for episode in group.trajectories} == {0}
    assert len({episode.reward for episode in group.trajectories}) > 1


async def test_three_play_a_game_together(renderer: DeltaRenderer, encode: Any) -> None:
    config = {"id": "ThreePlayerTicTacToe-v0", "players": 3, "seat": "all"}
    with pytest.raises(ConfigError, match="8 is no multiple of the 3 agents"):
        await play(renderer, encode, config)


@pytest.mark.parametrize(
    ("config", "agents", "said"),
    [
        ({**TOE, "opponent": "a:b"}, {}, "opponent: seat: all trains every seat"),
        ({**TOE, "players": 1}, {}, "players: 1; seat: all needs at least 2"),
        ({**TOE, "seat": "both"}, {}, "seat"),
        (TOE, {"player_2": "policy"}, "agents.player_2: no such agent; did you mean 'player_"),
        ({**TOE, "seat": 0, "opponent": "a:b"}, {"x": "policy"}, "one agent, the model"),
        (TOE, {"player_0": "policy", "player_1": "policy"}, "leave one out to train it"),
        (TOE, {"player_1": "nobody"}, "unknown player 'nobody'"),
        (TOE, {"player_1": {"name": f"{__name__}:lowest", "depth": 3}}, "player_1.depth"),
    ],
)
def test_what_cannot_be_played_is_named(config: Any, agents: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_environment_factory("textarena", config, agents)
