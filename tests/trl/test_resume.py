"""Checkpoints on generation boundaries, and a resume that loses and repeats nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from backends.local.checkpoints import MARKER
from backends.trl.backend import TRLBackend
from backends.trl.checkpoints import newest_checkpoint
from retrain.config import dump_config
from retrain.errors import ConfigError, DataError
from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples
from retrain.rollout.buffer import DataBuffer
from retrain.rollout.sources import make_tasks
from retrain.rollout.state_file import State, write_state
from retrain.training import train

HERE = Path(__file__).parent
ITERATIONS = 12

pytestmark = pytest.mark.slow


def start(config: Path, *flags: str) -> subprocess.Popen[bytes]:
    """Run in a process of its own."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, str(HERE / "killable_run.py"), str(config), *flags],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
    )


def visits(run: Path, iterations: int = ITERATIONS) -> list[tuple[str, int]]:
    """Each (task, visit) of the lineage that stands, in the order trained."""
    found = []
    for iteration in range(1, iterations + 1):
        samples = list(read_samples(run / "samples" / f"{iteration}.jsonl"))
        groups = {s.group_index: s.metadata["retrain"]["trajectory"] for s in samples}
        assert Counter(s.group_index for s in samples) == dict.fromkeys(groups, 4)
        found += [(groups[g]["task"]["id"], groups[g]["seed"]["visit"]) for g in sorted(groups)]
    return found


def test_killed_run_resumes_without_losing_or_repeating_a_visit(
    config: Any, tmp_path: Path
) -> None:
    made = config(
        num_iterations=ITERATIONS,
        global_batch_size=6,
        trl_per_device_train_batch_size=6,
        save_interval=2,
    )
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(made))
    run = made.output_dir
    process = start(path)
    wait_for(lambda: trained(run) >= 5, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = trained(run)
    assert before < ITERATIONS, "it was killed in mid-run"
    checkpoint = newest_checkpoint(run / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step % 2 == 0, "two optimizer steps make an iteration"
    resumed = start(path, "--resume")
    _, errors = resumed.communicate(timeout=240)
    assert resumed.returncode == 0, errors.decode()

    rows = read_metrics(run / "metrics.jsonl")
    assert [row.iteration for row in rows] == list(range(1, ITERATIONS + 1))
    tasks = make_tasks("list", made.prompt_source.source_config, tmp_path)
    expected = DataBuffer(tasks, seed=made.seed).draw(ITERATIONS * 3)
    assert visits(run) == [(r.task.id, r.visit) for r in expected]
    aside = [p.name for p in (run / "superseded").rglob("*.jsonl")] if before else []
    later = range(checkpoint.step // 2 + 1, before + 1)
    assert all(f"{i}.jsonl" in aside for i in later), "what came after the checkpoint is kept"


def test_resumed_run_trains_what_an_unbroken_one_would(config: Any, tmp_path: Path) -> None:
    """The same tasks, seeds and weights: resuming changes nothing but the clock."""
    backend = TRLBackend()
    whole = config(num_iterations=4, save_interval=2)
    backend.train(backend.plan(whole))
    half = whole.model_copy(update={"output_dir": tmp_path / "half"})
    backend.train(backend.plan(half))
    for late in ("3.jsonl", "4.jsonl"):
        assert (half.output_dir / "samples" / late).exists()
    newest = newest_checkpoint(half.output_dir / "checkpoints")
    assert newest is not None
    (newest.path / MARKER).unlink()
    backend.train(backend.plan(half), resume=True)
    one = list(read_samples(whole.output_dir / "samples" / "3.jsonl"))
    other = list(read_samples(half.output_dir / "samples" / "3.jsonl"))
    assert [s.tokens for s in one] == [s.tokens for s in other]
    assert [s.advantage for s in one] == [s.advantage for s in other]


def test_interrupt_finishes_the_iteration_and_keeps_a_checkpoint(
    config: Any, tmp_path: Path
) -> None:
    made = config(num_iterations=400)
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(made))
    process = start(path)
    wait_for(lambda: trained(made.output_dir) >= 2, process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    assert b"stopping after this iteration" in errors
    done = trained(made.output_dir)
    checkpoint = newest_checkpoint(made.output_dir / "checkpoints")
    assert checkpoint is not None
    assert (checkpoint.step, checkpoint.state["data"]["drawn"]) == (done, 3 * done)


def test_checkpoint_without_its_marker_is_passed_over(tmp_path: Path) -> None:
    for step, complete in ((2, True), (4, True), (6, False)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if complete:
            write_state(folder / MARKER, "trl checkpoint", State({"step": step, "data": {}}))
    checkpoint = newest_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step == 4
    (tmp_path / "checkpoint-4" / MARKER).write_text("{")
    with pytest.raises(DataError, match=r"is cut short or damaged .*; remove its folder to go on"):
        newest_checkpoint(tmp_path)


def test_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "absent") is None


def trained(run: Path) -> int:
    """How many iterations have been recorded."""
    metrics = run / "metrics.jsonl"
    return (
        max((row.iteration for row in read_metrics(metrics)), default=0) if metrics.exists() else 0
    )


def wait_for(condition: Any, process: subprocess.Popen[bytes], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


def test_resume_under_other_sizes_is_refused(config: Any) -> None:
    """A step would mean another iteration, and an iteration other tasks."""
    backend = TRLBackend()
    backend.train(backend.plan(config(save_interval=1)))
    other = config(save_interval=1, num_iterations=4, global_batch_size=4)
    with pytest.raises(ConfigError, match=r"global_batch_size: 12 then, 4 now"):
        backend.train(backend.plan(other), resume=True)
    assert not (other.output_dir / "superseded").exists()


def test_ended_run_can_be_made_longer(config: Any, capsys: pytest.CaptureFixture[str]) -> None:
    train(config(save_interval=1))
    longer = config(save_interval=1, num_iterations=4)
    result = train(longer, resume=True)
    rows = [row.iteration for row in read_metrics(longer.output_dir / "metrics.jsonl")]
    assert (result.iterations, rows) == (4, [1, 2, 3, 4])
    assert (longer.output_dir / "superseded" / "model-1" / "model.safetensors").is_file()
    again = train(longer, resume=True)
    assert again.iterations == 4
    assert "has ended after 4 iterations" in capsys.readouterr().err


def test_changed_tasks_are_refused(config: Any) -> None:
    backend = TRLBackend()
    backend.train(backend.plan(config(save_interval=1)))
    items = [{"id": str(i), "prompt": f"another task {i}"} for i in range(7)]
    source = {"type": "list", "source_config": {"items": items}}
    other = config(num_iterations=4, sections={"prompt_source": source})
    with pytest.raises(DataError, match="0 appeared, 0 vanished, 7 changed"):
        backend.train(backend.plan(other), resume=True)
