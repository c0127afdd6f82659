from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.slime import training_rows
from backends.slime.training_rows import before_step
from retrain.errors import RunFolderError
from retrain.report.metrics import read_metrics


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a new training process."""
    logger = logging.getLogger("slime")
    before = list(logger.handlers)
    monkeypatch.setattr(training_rows, "_rows", None)
    monkeypatch.setattr(logger, "level", logging.INFO)
    yield
    logger.handlers[:] = before


class Trainer:
    """Calls and logs what slime's trainer does, in its order."""

    def __init__(self, args: Namespace, rates: list[float], steps: int = 1) -> None:
        self.args, self.rates, self.steps = args, [*rates, 0.0], steps
        self.log = logging.getLogger("slime.backends.megatron_utils.model")

    def train(self, rollout: int) -> None:
        for step in range(self.steps):
            number = rollout * self.steps + step
            optimizer = Namespace(param_groups=[{"lr": self.rates[number]}])
            before_step(self.args, rollout, step, [], optimizer, None)
            values = {"train/loss": float(number), "train/lr-pg_0": self.rates[number + 1]}
            self.log.info(f"step {number}: {values}")
        self.log.info(f"perf {rollout}: {{'perf/actor_train_time': 0.5}}")


def rows_of(run: Path) -> list[tuple[int, dict[str, Any]]]:
    return [(row.iteration, dict(row.values)) for row in read_metrics(run / "metrics.jsonl")]


def test_the_row_stands_in_the_file_when_training_returns(
    slime_config: Any, slime_args: Any
) -> None:
    config = slime_config()
    trainer = Trainer(slime_args(config, global_batch_size=6), [0.0, 1e-4])
    trainer.train(0)
    row = {"train/loss": 0.0, "train/learning_rate": 0.0, "train/seconds": 0.5}
    assert rows_of(config.output_dir) == [(1, row)]
    trainer.train(1)
    row = {"train/loss": 1.0, "train/learning_rate": 1e-4, "train/seconds": 0.5}
    assert rows_of(config.output_dir)[1:] == [(2, row)]


def test_several_steps_make_one_row_with_the_rate_of_the_last(
    slime_config: Any, slime_args: Any
) -> None:
    config = slime_config()
    args = slime_args(config, global_batch_size=3)
    Trainer(args, [4.0, 3.0, 2.0, 1.0], steps=2).train(1)
    ((iteration, row),) = rows_of(config.output_dir)
    assert iteration == 2
    assert row == {"train/loss": 2.5, "train/learning_rate": 1.0, "train/seconds": 0.5}


def test_a_process_that_logs_no_step_writes_nothing(slime_config: Any, slime_args: Any) -> None:
    config = slime_config()
    optimizer = Namespace(param_groups=[{"lr": 1.0}])
    before_step(slime_args(config, global_batch_size=6), 0, 0, [], optimizer, None)
    logging.getLogger("slime.ray.rollout").info("perf 0: {'rollout/response_len': 3.0}")
    assert not (config.output_dir / "metrics.jsonl").exists()


def test_a_row_that_cannot_be_written_ends_the_training(slime_config: Any, slime_args: Any) -> None:
    config = slime_config()
    trainer = Trainer(slime_args(config, global_batch_size=6), [1.0])
    (config.output_dir / "metrics.jsonl").mkdir()
    with pytest.raises(RunFolderError, match=r"metrics\.jsonl: cannot be written"):
        trainer.train(0)
