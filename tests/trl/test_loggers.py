"""TRL's own loggers and its table of completions show our run."""

from __future__ import annotations

from typing import Any

import pytest

from backends.trl.backend import TRLBackend

pytestmark = pytest.mark.slow


def run(config: Any) -> Any:
    backend = TRLBackend()
    return backend.train(backend.plan(config))


def test_tensorboard_gets_our_metrics_under_our_names(config: Any) -> None:
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    made = config(num_iterations=2, trl_report_to="tensorboard")
    result = run(made)
    (folder,) = {path.parent for path in made.output_dir.rglob("events.out.tfevents.*")}
    events = loading.EventAccumulator(str(folder))
    events.Reload()
    names = set(events.Tags()["scalars"])
    assert {"reward/mean", "response/tokens", "train/logprob_abs_diff"} <= names
    last = events.Scalars("reward/mean")[-1]
    assert last.step == 2
    assert last.value == pytest.approx(result.metrics["reward/mean"], abs=1e-6)


def test_completions_table_shows_conversations(
    config: Any, spy: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    made = config(num_iterations=1, trl_log_completions=True, trl_num_completions_to_print=12)
    run(made)
    trainer, rows = spy.trainers[0], spy.batches[0].rows
    decode = trainer.processing_class.decode
    assert list(trainer._logs["prompt"]) == [decode(row.prompt_ids) for row in rows]
    assert list(trainer._logs["completion"]) == [decode(row.response_ids) for row in rows]
    assert list(trainer._logs["advantages"]) == [row.advantage for row in rows]
    assert "task number" in capfd.readouterr().out
