"""Several processes: the same batch as one, and nobody waits for a dead one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backends.trl.backend import TRLBackend
from retrain.config import dump_config
from retrain.errors import ConfigError, EngineFailure
from retrain.launch import Launch
from retrain.report.metrics import read_metrics
from retrain.report.samples import read_samples

HERE = Path(__file__).parent


def launch(count: int, config: Path, out: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run `rank_run.py` in `count` processes over gloo, as torchrun does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = [str(HERE / "rank_run.py"), str(config), str(out), *flags]
    runner = [sys.executable]
    if count > 1:
        runner += ["-m", "torch.distributed.run", f"--nproc_per_node={count}"]
        runner += ["--master_addr=127.0.0.1", f"--master_port={port}"]
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*runner, *script], env=environment, capture_output=True, text=True, timeout=280
    )


def results(out: Path) -> list[Any]:
    return [json.loads(p.read_text()) for p in sorted(out.parent.glob(f"{out.name}.*.json"))]


@pytest.fixture
def written(config: Any, tmp_path: Path) -> Any:
    def write(name: str, **hyper: Any) -> tuple[Any, Path]:
        made = config(rollout_batch_size=4, trl_per_device_train_batch_size=2, **hyper)
        made = made.model_copy(update={"output_dir": tmp_path / name})
        path = tmp_path / f"{name}.yaml"
        path.write_text(dump_config(made))
        return made, path

    return write


@pytest.mark.slow
def test_two_ranks_train_exactly_the_batch_of_one(written: Any, tmp_path: Path) -> None:
    """Tokens, masks, advantages and divisors are equal; weights up to the order of a float sum."""
    found = {}
    runs = {}
    for count in (1, 2):
        made, path = written(f"run{count}", global_batch_size=8, save_interval=1)
        done = launch(count, path, tmp_path / f"out{count}")
        assert done.returncode == 0, done.stderr[-3000:]
        found[count] = results(tmp_path / f"out{count}")
        runs[count] = made.output_dir
    (alone,), both = found[1], found[2]
    assert len(both) == 2

    def by_index(parts: Any, iteration: int) -> Any:
        rows = [row for part in parts for row in part["rows"] if row["step"] // 2 == iteration]
        return {row["index"]: (row["tokens"], row["mask"], row["advantage"]) for row in rows}

    for iteration in (0, 1):
        assert len(by_index([alone], iteration)) == 16
        assert by_index([alone], iteration) == by_index(both, iteration)
    tokens = {i: sum(mask) for i, (_, mask, _) in by_index(both, 0).items()}
    divisors = {row["divisor"] for part in both for row in part["rows"] if row["step"] == 0}
    trained = {row["index"] for part in both for row in part["rows"] if row["step"] == 0}
    assert divisors == {2.0 * sum(tokens[i] for i in trained)}, "x 2 optimizer steps, as TRL cuts"
    assert both[0]["norms"] == pytest.approx(both[1]["norms"], abs=1e-9), "the ranks agree"

    rows = {n: read_metrics(runs[n] / "metrics.jsonl") for n in (1, 2)}
    rewards = {n: [row.values["reward/mean"] for row in rows[n]] for n in (1, 2)}
    assert rewards[1] == pytest.approx(rewards[2])
    samples = {n: list(read_samples(runs[n] / "samples" / "1.jsonl")) for n in (1, 2)}
    assert [s.tokens for s in samples[1]] == [s.tokens for s in samples[2]]


@pytest.mark.slow
def test_one_optimizer_step_moves_the_weights_the_same(written: Any, tmp_path: Path) -> None:
    found = {}
    for count in (1, 2):
        _, path = written(f"step{count}", num_iterations=1, global_batch_size=16)
        done = launch(count, path, tmp_path / f"step_out{count}")
        assert done.returncode == 0, done.stderr[-3000:]
        found[count] = results(tmp_path / f"step_out{count}")[0]
    assert found[1]["norms"] == pytest.approx(found[2]["norms"], rel=1e-5)
    assert found[1]["sums"] == pytest.approx(found[2]["sums"], rel=1e-3, abs=1e-2)


@pytest.mark.slow
def test_rank_that_fails_stops_the_others_with_its_reason(written: Any, tmp_path: Path) -> None:
    _, path = written("broken", num_iterations=3)
    done = launch(2, path, tmp_path / "out", "--break-rank", "1")
    assert done.returncode != 0
    assert "rank 1 failed: " in done.stderr
    assert "the card fell off the bus" in done.stderr


OWN_TASKS = """
import os
from noisy_environment import Noisy


class OwnTasks(Noisy):
    @classmethod
    def tasks(cls):
        return [f"task {number} of rank {os.environ['RANK']}" for number in range(7)]
"""


@pytest.mark.slow
def test_ranks_that_read_other_tasks_are_refused(
    written: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_tasks.py").write_text(OWN_TASKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    sections = {
        "environment": {"type": "own_tasks:OwnTasks"},
        "prompt_source": {"type": "environment"},
    }
    made, path = written("other", sections=sections)
    done = launch(2, path, tmp_path / "out")
    assert done.returncode != 0
    assert "prompt_source: rank 1 has read other tasks than rank 0" in done.stderr
    assert not made.output_dir.exists()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("WORLD_SIZE", "2")
    return monkeypatch


def test_plan_shares_the_rollouts(config: Any, two: Any) -> None:
    plan = TRLBackend().plan(
        config(rollout_batch_size=4, global_batch_size=8, trl_per_device_train_batch_size=2)
    )
    assert plan.sizes["processes"] == 2
    assert plan.arguments["gradient_accumulation_steps"] == 2
    assert plan.arguments["steps_per_generation"] == 4


@pytest.mark.parametrize(
    ("sizes", "key"),
    [
        ({"rollout_batch_size": 3, "global_batch_size": 12}, "rollout_batch_size: 3"),
        ({"rollout_batch_size": 6, "global_batch_size": 3}, "global_batch_size: 3"),
    ],
)
def test_groups_that_would_straddle_are_refused_with_the_arithmetic(
    config: Any, two: Any, sizes: Any, key: str
) -> None:
    message = rf"{key} does not divide over 2 processes \(3 = 2 x 1 \+ 1\)"
    with pytest.raises(ConfigError, match=message):
        TRLBackend().plan(config(**sizes))


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"ACCELERATE_USE_FSDP": "true"}, "FSDP"),
        (
            {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"},
            "DeepSpeed ZeRO-3",
        ),
    ],
)
def test_sharded_weights_are_refused_with_the_alternative(
    config: Any, two: Any, variables: Any, name: str
) -> None:
    for key, value in variables.items():
        two.setenv(key, value)
    (problem,) = TRLBackend().plan(config(rollout_batch_size=4)).errors
    assert name in problem.message
    assert "DDP or ZeRO-2" in problem.message


def test_zero_2_is_planned(config: Any, two: Any) -> None:
    two.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    two.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2")
    assert TRLBackend().plan(config(rollout_batch_size=4)).errors == ()


def test_sharding_by_option_is_seen_too(config: Any, tmp_path: Path) -> None:
    path = tmp_path / "zero3.json"
    path.write_text(json.dumps({"zero_optimization": {"stage": 3}}))
    (problem,) = TRLBackend().plan(config(trl_deepspeed=str(path))).errors
    assert "ZeRO-3" in problem.message
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"trl_deepspeed: .* cannot be read"):
        TRLBackend().plan(config(trl_deepspeed=str(path)))


def test_refill_needs_one_process(config: Any, two: Any) -> None:
    sections = {"rollout": {"failure": {"environment": "refill"}}}
    (problem,) = TRLBackend().plan(config(rollout_batch_size=4, sections=sections)).errors
    assert problem.key == "rollout.failure.environment"


def test_shares_are_consecutive_and_complete() -> None:
    items = list(range(7))
    shares = [list(Launch(3, rank).share(items)) for rank in range(3)]
    assert shares == [[0, 1, 2], [3, 4], [5, 6]]
    assert Launch().share(items) == items


def test_failure_of_one_process_is_raised_as_it_is() -> None:
    Launch().agree(None)
    with pytest.raises(EngineFailure, match="gone"):
        Launch().agree(EngineFailure("gone"))
