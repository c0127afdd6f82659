"""Record, play again, and see where a change departs."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from real_tokenizers import qwen_tokenizer
from seeded_episodes import SeededModel, SeededWorld, make_rollouts

from bridges import DataFormatBridge, RolloutBridge
from retrain.errors import DataError, EngineFailure
from retrain.rendering import DeltaRenderer, load_renderer
from retrain.rollout.request import GroupRequest
from retrain.rollout.tape import (
    RecordingEngine,
    Tape,
    TapeEngine,
    TapeGroup,
    TapeHeader,
    departures,
    recording_tape,
)
from retrain.sample import Status
from retrain.types import Group, Task

TASKS = [Task(f"task-{i}", f"question {i}?", label=str(i)) for i in range(6)]
REQUESTS = [GroupRequest(i, task, 0) for i, task in enumerate(TASKS)]
HEADER = TapeHeader(
    config={"experiment_name": "x", "reward_setup": {"params": {"api_key": "sk-secret"}}},
    created="2026-01-01T00:00:00+00:00",
    versions={"retrain": "0"},
    engine="random",
)


@pytest.fixture(scope="module")
def renderer(pytestconfig: pytest.Config) -> DeltaRenderer:
    return load_renderer(qwen_tokenizer(pytestconfig.cache.mkdir("tokenizers")))


@pytest.fixture
async def tape(renderer: DeltaRenderer, tmp_path: Path) -> Path:
    path = tmp_path / "run.tape"
    engine = RecordingEngine(SeededModel(renderer))
    groups = await make_rollouts(renderer, engine).collect(REQUESTS)
    with recording_tape(path, HEADER) as recorder:
        for group in groups:
            recorder.add(group, engine)
    return path


async def play(tape: Path, make: Callable[[TapeEngine], RolloutBridge]) -> list[Group]:
    with Tape(tape) as opened:
        return await make(TapeEngine(opened.groups())).collect(REQUESTS)


def recorded(tape: Path) -> list[TapeGroup]:
    with Tape(tape) as opened:
        return list(opened.groups())


def as_bytes(groups: list[Group], renderer: DeltaRenderer) -> list[str]:
    """Every sample, times left out."""
    untimed = [
        replace(group, trajectories=tuple(replace(t, timings=()) for t in group.trajectories))
        for group in groups
    ]
    data_format = DataFormatBridge(renderer)
    return [
        repr(sample)
        for group in untimed
        for slot in data_format.group_samples(group)
        for sample in slot
    ]


async def test_a_replay_into_the_same_code_gives_the_same_bytes(
    tape: Path, renderer: DeltaRenderer
) -> None:
    played = await play(tape, lambda engine: make_rollouts(renderer, engine))
    then = [group.group for group in recorded(tape)]
    assert as_bytes(played, renderer) == as_bytes(then, renderer)
    assert sum(len(t.turns) for group in played for t in group.trajectories) > 30
    for old, new in zip(then, played, strict=True):
        assert not list(departures(old, new, renderer.decode))


async def test_a_changed_environment_shows_the_first_differing_token(
    tape: Path, renderer: DeltaRenderer
) -> None:
    def changed(engine: TapeEngine) -> RolloutBridge:
        return make_rollouts(renderer, engine, world=lambda: SeededWorld(suffix=" END"))

    played = await play(tape, changed)
    found = [
        difference
        for old, new in zip(recorded(tape), played, strict=True)
        for difference in departures(old.group, new, renderer.decode)
    ]
    first = next(d for d in found if d.what == "reply")
    assert first.token is not None and " end" in first.recorded and " END" in first.played
    assert "turn" in str(first) and first.task_id in str(first)
    stream = next(
        t.turns[first.turn].env_ids
        for group in recorded(tape)
        for t in group.group.trajectories
        if (t.task.id, t.seed.sample_index) == (first.task_id, first.sample_index)
    )
    assert renderer.decode(list(stream)[: first.token]).endswith(("say", " ", "\t", "}", "!", "n"))


async def test_a_changed_reward_shows_its_component_and_the_advantage(
    tape: Path, renderer: DeltaRenderer
) -> None:
    def changed(engine: TapeEngine) -> RolloutBridge:
        return make_rollouts(renderer, engine, world=lambda: SeededWorld(bonus=0.25))

    played = await play(tape, changed)
    kinds = {
        difference.what
        for old, new in zip(recorded(tape), played, strict=True)
        for difference in departures(old.group, new, renderer.decode)
    }
    assert {"reward", "reward component 'environment'"} <= kinds


async def test_a_changed_seed_falls_off_the_tape(tape: Path, renderer: DeltaRenderer) -> None:
    with Tape(tape) as opened:
        bridge = make_rollouts(renderer, TapeEngine(opened.groups()), run_seed=99)
        groups = await bridge.collect(REQUESTS)
    errors = [t.error for group in groups for t in group.trajectories]
    assert all(e is not None and "no answer for this turn" in e.reason for e in errors)


async def test_an_engine_that_failed_fails_again_for_its_reason(
    renderer: DeltaRenderer, tmp_path: Path
) -> None:
    engine = RecordingEngine(SeededModel(renderer, fails=True))
    groups = await make_rollouts(renderer, engine).collect(REQUESTS)
    assert {t.status for group in groups for t in group.trajectories} > {Status.FAILED}
    with recording_tape(tmp_path / "t", HEADER) as recorder:
        for group in groups:
            recorder.add(group, engine)
    played = await play(tmp_path / "t", lambda tape: make_rollouts(renderer, tape))
    for old, new in zip(recorded(tmp_path / "t"), played, strict=True):
        assert not list(departures(old.group, new, renderer.decode))


def test_parts_are_read_alone(tape: Path) -> None:
    with Tape(tape) as opened:
        assert len(opened) == len(TASKS)
        assert opened.group(4).group.task.id == "task-4"
        assert opened.header.versions == {"retrain": "0"}


async def test_credentials_are_not_there(renderer: DeltaRenderer, tmp_path: Path) -> None:
    engine = RecordingEngine(SeededModel(renderer))
    world = partial(SeededWorld, secret=True)
    (group,) = await make_rollouts(renderer, engine, world=world).collect(REQUESTS[:1])
    assert any("password" in turn.info for t in group.trajectories for turn in t.turns)
    with recording_tape(tmp_path / "t", HEADER) as recorder:
        recorder.add(group, engine)
    with zipfile.ZipFile(tmp_path / "t") as archive:
        everything = b"".join(map(archive.read, archive.namelist()))
        assert all(entry.compress_type == zipfile.ZIP_DEFLATED for entry in archive.infolist())
    assert b"sk-secret" not in everything and b"hidden-password" not in everything
    with Tape(tmp_path / "t") as opened:
        assert not list(departures(opened.group(0).group, group, renderer.decode))


def test_a_recording_that_fails_leaves_the_older_tape(tape: Path) -> None:
    before = tape.read_bytes()
    with pytest.raises(EngineFailure), recording_tape(tape, HEADER):
        raise EngineFailure("gone")
    assert tape.read_bytes() == before
    assert [path.name for path in tape.parent.iterdir()] == [tape.name]


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.99])
def test_a_cut_tape_is_refused(tape: Path, cut: float) -> None:
    data = tape.read_bytes()
    tape.write_bytes(data[: int(len(data) * cut)])
    with pytest.raises(DataError, match="is no tape"):
        Tape(tape)


def test_flipped_bytes_are_named(tape: Path) -> None:
    data = bytearray(tape.read_bytes())
    rng = random.Random(0)
    for at in rng.sample(range(200, len(data) // 2), 50):
        data[at] ^= 0xFF
    tape.write_bytes(bytes(data))
    with pytest.raises(DataError, match=str(tape)), Tape(tape) as opened:
        list(opened.groups())


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"version": 2}, "is a tape of version 2; this retrain reads version 1"),
        ({"version": 1}, "config: Field required"),
        ([1], "expected a JSON object"),
    ],
)
def test_a_header_that_cannot_be_read_says_why(header: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
    with pytest.raises(DataError, match=message):
        Tape(path)


def test_no_file_says_how_to_record_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No such file.*retrain rollout C.yaml --tape FILE"):
        Tape(tmp_path / "none")
