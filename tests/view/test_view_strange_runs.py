"""Rows and folders that the ordinary run does not have: agents, images, odd values, late stages."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from viewed_runs import episode, right, turn, varied, write_iteration, wrong

from retrain.view.app import make_app
from retrain.view.documents import episode_document
from retrain.view.following import Following
from retrain.view.index import RunIndex
from retrain.view.packing import pack
from retrain.view.pictures import Pictures
from retrain.view.reading import read_episode
from retrain.view.runs import find_runs
from retrain.view.shown_runs import ShownRuns
from retrain.view.side_by_side import compare_group

LOCAL = "http://127.0.0.1:1234"
HUGE = 10**400


def match(rewards: list[float]) -> list[Any]:
    """Two matches of two agents: rewards of black, white, black, white."""
    agents = ["black", "white"]
    return [
        episode(turn("move"), slot=n, reward=reward, agent=agents[n % 2])
        for n, reward in enumerate(rewards)
    ]


@pytest.mark.parametrize(
    ("rewards", "flat"), [([1.0, 0.0, 1.0, 0.0], True), ([1.0, 0.0, 0.0, 0.0], False)]
)
def test_the_episodes_of_an_agent_are_compared_with_each_other(
    tmp_path: Path, rewards: list[float], flat: bool
) -> None:
    write_iteration(tmp_path, 1, match(rewards))
    index = RunIndex.read(tmp_path)
    assert index.files[0].groups[0].zero_variance is flat
    assert [e.agent for e in index.episodes] == ["black", "white"] * 2
    assert episode_document(read_episode(index, "1.2"), Pictures([]))["agent"] == "white"


def changed(tmp_path: Path, change: dict[str, Any], turn_change: dict[str, Any]) -> RunIndex:
    write_iteration(tmp_path, 1, [right(0)])
    path = tmp_path / "samples" / "1.jsonl"
    row = json.loads(path.read_bytes())
    row.update(change)
    row["metadata"]["retrain"]["turns"][0].update(turn_change)
    path.write_text(json.dumps(row) + "\n")
    return RunIndex.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "turn_change"),
    [
        ({"reward": HUGE, "rewards": {"exact": HUGE, "__proto__": 1}}, {}),
        ({"rollout_log_probs": [HUGE] * 33}, {}),
        ({}, {"weight_spans": [[1], "x", [1, 2, 3], [2, "7"]]}),
        ({}, {"output": -5, "env": -7}),
    ],
)
def test_an_odd_value_spoils_nothing_else(
    tmp_path: Path, change: dict[str, Any], turn_change: dict[str, Any]
) -> None:
    index = changed(tmp_path, change, turn_change)
    found = list(index.episodes)
    assert len(found) + len(index.problems) == 1
    for summary in found:
        (stream,) = read_episode(index, summary.id).streams
        assert len(stream.logprobs) == len(stream.ids) == len(stream.texts)


def test_a_damaged_episode_leaves_the_others_of_its_group(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, varied(0))
    path = tmp_path / "samples" / "1.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"tokens":[51,', b'"tokens":["x",', 1))
    group = compare_group(RunIndex.read(tmp_path), "1@0")
    assert "line 1: 'tokens' holds something else" in group["episodes"][0]["problem"]
    assert group["episodes"][1]["spans"][0]["text"] == "no idea"
    (run,) = pack(find_runs(tmp_path), "t", most=9).document["runs"]
    assert list(run["episodes"]) == ["1.2", "1.3", "1.4"]
    assert len(run["groups"]["1@0"]["episodes"]) == 4


@pytest.mark.parametrize("rest", [b"[0.5, {]}", b"5}"])
def test_a_damaged_row_of_the_trainer_leaves_the_episode(tmp_path: Path, rest: bytes) -> None:
    write_iteration(tmp_path, 1, [right(0)])
    (tmp_path / "trainer_logprobs").mkdir()
    row = b'{"index": 0, "segment": 0, "logprobs": ' + rest + b"\n"
    (tmp_path / "trainer_logprobs" / "1.jsonl").write_bytes(row)
    (stream,) = read_episode(RunIndex.read(tmp_path), "1.1").streams
    assert set(stream.trainer_logprobs) == {None}
    assert stream.mask.count(1) > 0


async def test_a_stage_that_begins_later_is_shown(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("stages: []\n")
    places = find_runs(tmp_path)
    shown = ShownRuns([Following(place) for place in places], lambda: find_runs(tmp_path))
    transport = httpx.ASGITransport(make_app(shown, title="t"))
    async with httpx.AsyncClient(transport=transport, base_url=LOCAL) as client:
        assert (await client.get("/api/runs")).json()["runs"] == [tmp_path.name]
        for stage in ("sft", "grpo"):
            assert (await client.get(f"/api/run/{stage}")).status_code == 404
            write_iteration(tmp_path / "stages" / stage, 1, varied(0), [wrong(0, group=1)])
            assert stage in (await client.get("/api/runs")).json()["runs"]
            assert (await client.get(f"/api/run/{stage}")).json()["name"] == stage
        assert len((await client.get("/api/runs")).json()["runs"]) == 2
    shown.stop()
