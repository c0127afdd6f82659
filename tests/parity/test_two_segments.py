"""Episodes of several segments: slime trains on what was recorded, and TRL refuses before a run."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from readings import real_slime_reading, record, rows_of, slime_reading

from retrain.compose import compose
from retrain.config import RunConfig
from retrain.environment.rewriting import rewrites_history
from retrain.errors import ConfigError
from retrain.parity import Recorded, digest, read_recorded

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason="needs torch: pip install 'retrain[trl]'")

WORLD = "compacting_world:Compacting"


@pytest.fixture(scope="module")
def config(parity_config: RunConfig) -> RunConfig:
    environment = parity_config.environment.model_copy(update={"type": WORLD})
    return parity_config.model_copy(update={"environment": environment})


@pytest.fixture(scope="module")
def tape(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(config, tmp_path_factory.mktemp("tape") / "segments.tape")


@pytest.fixture(scope="module")
def recorded(config: RunConfig, tape: Path) -> Recorded:
    return read_recorded(config, tape)


@pytest.fixture(scope="module")
def expected(recorded: Recorded) -> Any:
    return rows_of(compose(recorded.config).data_format, recorded.groups)


def sequence(config: RunConfig, tape: Path) -> Recorded:
    """The same with the mean over rollouts."""
    algorithm = config.algorithm
    changed = algorithm.hyperparameters.model_copy(update={"loss_aggregation": "sequence"})
    algorithm = algorithm.model_copy(update={"hyperparameters": changed})
    return read_recorded(config.model_copy(update={"algorithm": algorithm}), tape)


def check_votes(reading: Any, recorded: Recorded) -> None:
    """Each segment has its rollout's advantage, which is the group's by one vote per rollout."""
    slots = [
        (trajectory, advantage)
        for group in recorded.groups
        for trajectory, advantage in zip(group.trajectories, group.advantages, strict=True)
    ]
    rows = defaultdict(list)
    for row in reading.rows:
        rows[row.index].append(row)
    for trajectory, advantage in slots:
        own = rows[trajectory.index]
        assert len(own) == max(len(trajectory.segments), 1)
        assert {round(row.advantage, 5) for row in own} == {round(advantage, 5)}


def check_rollout_weights(reading: Any, recorded: Recorded) -> None:
    """The weights of a rollout's tokens are equal over its segments and sum to its share."""
    rollouts = defaultdict(list)
    for row in reading.rows:
        rollouts[row.index] += [weight for weight in row.weights if weight]
    size = recorded.config.algorithm.hyperparameters.global_batch_size
    trained = [weights for weights in rollouts.values() if weights]
    for weights in trained:
        assert max(weights) == pytest.approx(min(weights))
        assert sum(weights) == pytest.approx(1 / size)
    assert len(trained) > 8


def test_the_port_of_slime_trains_on_every_segment(
    recorded: Recorded, expected: Any, config: RunConfig, tape: Path, monkeypatch: Any
) -> None:
    from backends.slime.parity import read_loss

    monkeypatch.delenv("RETRAIN_SLIME", raising=False)
    reading = read_loss(recorded)
    assert reading.source.startswith("port")
    assert sum(row.part > 0 for row in expected) > 8, "many episodes have several segments"
    assert len({row.advantage for row in expected}) > 4
    assert digest(reading.rows) == digest(expected)
    check_votes(reading, recorded)
    by_rollout = sequence(config, tape)
    check_rollout_weights(read_loss(by_rollout), by_rollout)


@pytest.mark.slime
def test_slime_s_own_code_trains_on_every_segment(
    recorded: Recorded, expected: Any, config: RunConfig, tape: Path
) -> None:
    reading = real_slime_reading(recorded)
    assert digest(reading.rows) == digest(expected)
    check_votes(reading, recorded)
    by_rollout = sequence(config, tape)
    check_rollout_weights(slime_reading(by_rollout), by_rollout)


def test_trl_refuses_before_anything_is_played(recorded: Recorded) -> None:
    pytest.importorskip("trl", reason="needs TRL: pip install 'retrain[trl]'")
    from backends.trl.backend import TRLBackend

    with pytest.raises(ConfigError, match=r"environment\.type: .*Compacting' rewrites its history"):
        TRLBackend().read_loss(recorded)


def test_a_tape_of_several_segments_replays_bit_for_bit(recorded: Recorded, tape: Path) -> None:
    from retrain.rollout.tape import Tape as OpenTape
    from retrain.rollout.tape import TapeEngine, departures
    from retrain.runtime import EventLoopThread

    composition = compose(recorded.config)
    with OpenTape(tape) as opened:
        engine = TapeEngine(opened.groups())
    with EventLoopThread() as loop:
        played = loop.run(composition.rollouts(engine).collect(recorded.requests))
    decode = composition.renderer.decode
    pairs = zip(recorded.groups, played, strict=True)
    assert [str(d) for one, other in pairs for d in departures(one, other, decode)] == []
    assert sum(len(t.segments) > 1 for group in played for t in group.trajectories) > 4


@pytest.mark.parametrize(
    ("type", "arguments", "rewrites"),
    [
        (WORLD, {}, True),
        ("parity_world:World", {}, False),
        ("calculator", {}, False),
        ("compacting_world:make_compacting", {}, True),
        ("compacting_world:Either", {}, True),
        ("compacting_world:Either", {"compact": False}, False),
        ("no_such_module:World", {}, False),
    ],
)
def test_a_class_declares_that_it_rewrites(type: str, arguments: Any, rewrites: bool) -> None:
    assert rewrites_history(type, arguments) is rewrites
