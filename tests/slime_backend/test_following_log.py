from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from backends.slime.following import LogFollower

Rows = list[tuple[int, dict[str, float]]]

RANK = "\x1b[36m(MegatronTrainRayActor pid=41, ip=10.0.0.2)\x1b[0m "
STAMP = "[2026-08-01 10:00:00] model.py:918 - "


def follow(*lines: str, steps: int = 1) -> tuple[Rows, LogFollower]:
    rows: Rows = []

    def on_row(iteration: int, row: Mapping[str, float]) -> None:
        rows.append((iteration, dict(row)))

    follower = LogFollower(on_row, steps_per_iteration=steps)
    for line in lines:
        follower.line(line)
    follower.close()
    return rows, follower


def step(number: int, **values: object) -> str:
    pairs = ", ".join(
        f"'train/{name.replace('__', '-')}': {value}" for name, value in values.items()
    )
    return f"{RANK}{STAMP}step {number}: {{{pairs}, 'train/step': {number}}}"


def perf(rollout: int) -> str:
    return f"{RANK}{STAMP}perf {rollout}: {{'perf/actor_train_time': 2.5, 'perf/train_time': 3.0}}"


def test_a_rollout_becomes_one_row_under_our_names() -> None:
    rows, _ = follow(
        step(
            0,
            loss=-0.25,
            grad_norm="np.float64(1.5)",
            lr__pg_0=1e-06,
            entropy_loss=0.7,
            kl_loss=0.01,
            pg_clipfrac=0.0,
            train_rollout_logprob_abs_diff=6e-4,
            ppo_kl=0.0,
        ),
        perf(0),
    )
    assert rows == [
        (
            1,
            {
                "train/loss": -0.25,
                "train/grad_norm": 1.5,
                "train/learning_rate": 1e-6,
                "train/entropy": 0.7,
                "train/kl": 0.01,
                "train/clip_fraction": 0.0,
                "train/logprob_abs_diff": 6e-4,
                "train/seconds": 2.5,
            },
        )
    ]


def test_the_steps_of_a_rollout_are_averaged() -> None:
    rows, _ = follow(
        step(4, loss=1.0, lr__pg_0=3e-6, train_rollout_logprob_abs_diff=0.001),
        step(5, loss=2.0, lr__pg_0=2e-6, train_rollout_logprob_abs_diff=0.5),
        perf(2),
        steps=2,
    )
    ((iteration, row),) = rows
    assert iteration == 3
    assert row["train/loss"] == 1.5
    assert row["train/learning_rate"] == 2e-6
    assert row["train/logprob_abs_diff"] == 0.001  # before the first update


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_number_that_is_not_finite_is_read(value: str) -> None:
    ((_, row),), _ = follow(step(0, loss=value))
    assert not math.isfinite(row["train/loss"])


def test_a_rollout_without_its_last_line_is_given_out_when_the_next_begins() -> None:
    rows, _ = follow(step(0, loss=1.0), step(1, loss=2.0))
    assert [(iteration, row["train/loss"]) for iteration, row in rows] == [(1, 1.0), (2, 2.0)]


def test_lines_of_the_rollout_and_of_a_critic_are_no_training() -> None:
    rows, _ = follow(
        f"{STAMP}perf 0: {{'perf/rollout_time': 9.0, 'rollout/raw_reward': 0.5}}",
        f"{STAMP}critic-step 0: {{'train/critic-loss': 3.0}}",
        "footstep 0: {'train/loss': 1.0}",
    )
    assert rows == []


def test_the_drivers_error_is_the_failure() -> None:
    _, follower = follow(
        "(RolloutManager pid=3) Traceback (most recent call last):",
        "(RolloutManager pid=3) httpx.ReadTimeout: tried again",
        "(RolloutManager pid=3) KeyError: 'reward'",
        "Traceback (most recent call last):",
        '  File "train.py", line 51, in train',
        "ray.exceptions.RayTaskError(ConfigError): ray::RolloutManager.generate() (pid=3)",
        '  File "plugin.py", line 1, in generate_rollout',
        "retrain.errors.ConfigError: environment.type: no module named 'mine'",
        "  known: calculator",
        "(RolloutManager pid=3) later words",
    )
    assert follower.failure() == (
        "retrain.errors.ConfigError: environment.type: no module named 'mine'\n  known: calculator"
    )


def test_a_workers_error_counts_where_the_driver_raised_none() -> None:
    _, follower = follow(
        "(SGLangEngine pid=7, ip=10.0.0.3) RuntimeError: port 30000 is taken",
        "(RolloutManager pid=3) all is well",
    )
    assert follower.failure() == "RuntimeError: port 30000 is taken"


def test_rays_words_about_a_dead_actor_are_kept() -> None:
    _, follower = follow(
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        "\tclass_name: MegatronTrainRayActor",
        "\tpid: 3954",
        "2026-08-01 10:00:00,000\tINFO worker.py:1 -- shutting down",
    )
    failure = follower.failure()
    assert failure is not None
    assert failure.endswith("class_name: MegatronTrainRayActor\n\tpid: 3954")


def test_a_log_without_an_error_has_no_failure() -> None:
    _, follower = follow(step(0, loss=1.0), "Error handling is on", "no Exception here: none")
    assert follower.failure() is None
