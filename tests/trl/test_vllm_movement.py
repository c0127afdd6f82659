"""Weights that do not follow the trainer's are noticed, and nothing else is."""

from __future__ import annotations

import pytest

from backends.trl.vllm_movement import WeightMovement
from retrain.engine.base import Generation
from retrain.errors import BackendFailure
from retrain.types import FinishReason


def answer(logprob: float) -> Generation:
    return Generation((5,), (logprob,), FinishReason.LENGTH)


def test_the_same_answer_and_a_growing_gap_are_stale_weights() -> None:
    movement = WeightMovement("the server")
    movement.synced(answer(-1.0))
    movement.measured(0.004)
    movement.synced(answer(-1.0))
    movement.measured(0.02)
    movement.synced(answer(-1.0))
    with pytest.raises(BackendFailure, match=r"after 2 syncs .* from 0.004 to 0.06 nats"):
        movement.measured(0.06)


def test_the_same_answer_alone_is_a_small_step() -> None:
    movement = WeightMovement("the server")
    for _ in range(5):
        movement.synced(answer(-1.0))
        movement.measured(0.03)


def test_a_noisy_engine_that_moves_is_no_failure() -> None:
    movement = WeightMovement("the server")
    for step in range(5):
        movement.synced(answer(-1.0 - step))
        movement.measured(0.02 + 0.08 * step)


def test_another_model_is_told_at_once() -> None:
    movement = WeightMovement("the server")
    movement.synced(answer(-1.0))
    with pytest.raises(BackendFailure, match=r"1.5 nats .* model.name_or_path"):
        movement.measured(1.5)
