"""A server that keeps old weights is told from one that rounds otherwise."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from retrain.engine.weight_probe import (
    PROMPTS,
    WeightMovement,
    read_answers,
    write_answers,
)
from retrain.errors import EngineFailure

Follow = Callable[[Sequence[float], Sequence[float]], Sequence[float]]


def updates(follow: Follow, *, noise: float, step: float = 0.01, count: int = 60) -> int:
    """Train for `count` updates; gives the update at which the server is found out, or 0.

    Args:
        follow: The server's logprobs, from the first ones and the present ones.
        noise: Standard deviation of its rounding, in nats.
        step: Mean movement of an update, in nats.
        count: How many updates.
    """
    rng = random.Random(3)
    movement = WeightMovement()
    first = [-2.0 - 0.3 * place for place in range(len(PROMPTS))]
    present = list(first)
    for update in range(1, count + 1):
        given = [value + rng.gauss(0, noise) for value in follow(first, present)]
        try:
            movement.require_fresh("http://one", given, present)
        except EngineFailure:
            return update
        present = [value + rng.gauss(0, 1.25 * step) for value in present]
    return 0


def half(first: Sequence[float], present: Sequence[float]) -> Sequence[float]:
    """A server that loads some of the weights."""
    return [0.5 * a + 0.5 * b for a, b in zip(first, present, strict=True)]


@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.01, 0.03])
@pytest.mark.parametrize("step", [0.0, 1e-4, 0.003, 0.05, 0.5])
def test_a_server_that_follows_is_left_alone(noise: float, step: float) -> None:
    assert updates(lambda first, present: present, noise=noise, step=step, count=300) == 0


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-4])
def test_a_server_that_keeps_its_weights_is_found_out(noise: float) -> None:
    assert 1 < updates(lambda first, present: first, noise=noise, step=0.03) <= 3
    assert 1 < updates(lambda first, present: first, noise=noise, step=0.01) <= 15


@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.01])
def test_a_server_that_loads_a_part_is_found_out(noise: float) -> None:
    assert 1 < updates(half, noise=noise, step=0.05) <= 20


def test_experts_that_are_chosen_otherwise_are_no_other_weights() -> None:
    movement, trained = WeightMovement(), [-2.0] * len(PROMPTS)
    for apart in (0.186, 0.142, 0.142, 0.191, 0.199, 0.253, 0.352):  # measured, see `APART`
        movement.require_fresh("http://one", [answer - apart for answer in trained], trained)
    with pytest.raises(
        EngineFailure, match=r"0\.6 nats from the trainer's \(expected at most 0\.5"
    ):
        movement.require_fresh("http://one", [answer - 0.6 for answer in trained], trained)


def test_answers_stand_beside_the_weights(tmp_path: Path) -> None:
    assert read_answers(tmp_path) is None
    answers = tuple(-1.0 - place for place in range(8))
    write_answers(tmp_path, answers)
    assert read_answers(tmp_path) == answers
    for damage in ("{", "[]", '{"logprobs": null}'):
        (tmp_path / "retrain_probe.json").write_text(damage)
        with pytest.raises(EngineFailure, match=r"retrain_probe\.json: is damaged"):
            read_answers(tmp_path)
