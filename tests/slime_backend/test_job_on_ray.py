"""Runs on a real Ray; slime's own script is stood in for, the rest is what production does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_runs import make_demo_model

pytest.importorskip("ray", reason="needs Ray: pip install 'retrain[slime]'")
pytest.importorskip("aiohttp", reason="needs Ray's job server: pip install 'retrain[slime]'")
pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[engine]'")

from backends.slime.cluster import RayCluster, private_ray
from backends.slime.job import JOB
from backends.slime.planning import make_plan
from backends.slime.running import LOG, run_plan
from retrain.config import RunConfig
from retrain.errors import BackendFailure, ConfigError
from retrain.report.metrics import read_metrics
from retrain.report.result import RunResult

HERE = Path(__file__).parent
SECRET = "a-secret-of-the-environment"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ray() -> Iterator[RayCluster]:
    """A Ray of our own that others see as a running cluster, with a GPU that it only counts."""
    before = dict(os.environ)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ["STAND_IN_API_KEY"] = SECRET
    try:
        with private_ray("--num-gpus=1", "--num-cpus=2") as cluster:
            assert cluster.token is not None
            os.environ["RAY_AUTH_TOKEN"] = cluster.token
            yield cluster
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("slime")
    make_demo_model(root / "model")
    (root / "slime").mkdir()
    shutil.copy(HERE / "stand_in_train.py", root / "slime" / "train.py")
    return {"model": root / "model", "slime": root / "slime"}


Make = Callable[..., RunConfig]


@pytest.fixture
def make(ray: RayCluster, folders: dict[str, Path], tmp_path: Path) -> Make:
    def config(fault: str = "", **hyper: Any) -> RunConfig:
        defaults = {
            "num_iterations": 3,
            "rollout_batch_size": 2,
            "n_samples_per_prompt": 2,
            "save_interval": 1,
        }
        return RunConfig.model_validate(
            {
                "experiment_name": "stand-in",
                "output_dir": str(tmp_path / "run"),
                "model": {"name_or_path": str(folders["model"])},
                "environment": {"type": "calculator"},
                "prompt_source": {
                    "type": "list",
                    "source_config": {"items": [{"prompt": "1+1 then *2", "label": "4"}]},
                },
                "algorithm": {
                    "name": "grpo",
                    "backend": "slime",
                    "hyperparameters": {**defaults, **hyper},
                },
                "cluster": {
                    "address": ray.address,
                    "slime": str(folders["slime"]),
                    "megatron": "/somewhere/Megatron-LM",
                    "env_vars": {"STAND_IN": fault} if fault else {},
                },
            }
        )

    return config


def train(config: RunConfig, *, resume: bool = False) -> RunResult:
    return run_plan(make_plan(config), resume=resume)


def jobs(ray: RayCluster) -> list[dict[str, Any]]:
    request = urllib.request.Request(f"{ray.address}/api/jobs/", headers=ray.headers)
    with urllib.request.urlopen(request) as reply:
        found: list[dict[str, Any]] = json.load(reply)
    return found


def test_a_failed_run_says_why_and_goes_on_to_its_end(make: Make, ray: RayCluster) -> None:
    config = make("fail:2")
    run = config.output_dir
    with pytest.raises(BackendFailure) as caught:
        train(config)
    assert "ValueError: the batch of rollout 2 is empty\n  while packing" in str(caught.value)
    assert str(run / LOG) in str(caught.value)
    assert "ValueError" in (run / "events.log").read_text()

    result = train(make(), resume=True)
    assert (result.iterations, result.interrupted) == (3, False)
    assert result.model_dir == run / "checkpoints" / "hf" / "2"
    assert result.metrics["reward/mean"] == 0.2
    assert result.metrics["train/learning_rate"] == 1e-6
    rows = read_metrics(run / "metrics.jsonl")
    assert [row.iteration for row in rows if "reward/mean" in row.values] == [1, 2, 3]
    trained = [row for row in rows if "train/loss" in row.values]
    assert [row.iteration for row in trained] == [1, 2, 3]
    assert trained[0].values["train/grad_norm"] is None
    aside = json.loads((run / "superseded" / "001" / "metrics.jsonl").read_text())
    assert aside["iteration"] == 3
    assert not (run / JOB).exists()
    _assert_environment(config, (run / LOG).read_text())
    assert SECRET not in json.dumps(jobs(ray))


def test_the_rows_come_from_the_log_where_the_user_has_a_hook_of_his_own(make: Make) -> None:
    hook = {"slime_custom_megatron_before_train_step_hook_path": "builtins.print"}
    result = train(make(num_iterations=1, **hook))
    assert result.metrics["train/learning_rate"] == 9e-7, "as slime logs it: of the next step"
    (row,) = [r for r in read_metrics(result.run_dir / "metrics.jsonl") if "train/loss" in r.values]
    assert (row.iteration, row.values["train/seconds"]) == (1, 1.5)


def _assert_environment(config: RunConfig, log: str) -> None:
    environment = json.loads(log.split("environment ")[1].splitlines()[0])
    path = environment["PYTHONPATH"].split(":")
    assert path[:2] == [config.cluster.slime, "/somewhere/Megatron-LM"]
    assert str(HERE.parents[1]) in path
    assert environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert "the key is <redacted>" in log
    assert SECRET not in log


def test_ctrl_c_stops_the_job_and_keeps_what_was_saved(make: Make, ray: RayCluster) -> None:
    config = make("hang:1")
    log = config.output_dir / LOG

    def interrupt() -> None:
        while not (log.exists() and "waiting for ever" in log.read_text()):
            time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    result = train(config)
    assert (result.iterations, result.interrupted) == (1, True)
    assert {job["status"] for job in jobs(ray)} <= {"SUCCEEDED", "FAILED", "STOPPED"}
    assert "interrupted" in (config.output_dir / "events.log").read_text()


def test_a_killed_launcher_leaves_a_job_that_resuming_stops(
    make: Make, ray: RayCluster, tmp_path: Path
) -> None:
    config = make("hang:1")
    document = tmp_path / "config.json"
    document.write_text(config.model_dump_json())
    launcher = subprocess.Popen([sys.executable, "-m", "retrain", "train", str(document)])
    log = config.output_dir / LOG
    while not (log.exists() and "waiting for ever" in log.read_text()):
        assert launcher.poll() is None
        time.sleep(0.1)
    launcher.kill()
    launcher.wait()
    left = json.loads((config.output_dir / JOB).read_text())["job"]
    result = train(make(), resume=True)
    assert result.iterations == 3
    (job,) = [job for job in jobs(ray) if job["submission_id"] == left]
    assert job["status"] == "STOPPED"


def test_a_layout_that_ray_cannot_hold_is_refused_before_the_folder_is_made(make: Make) -> None:
    config = make(slime_actor_num_gpus_per_node=4)
    with pytest.raises(ConfigError, match="Ray reports nodes with 1 GPUs"):
        train(config)
    assert not config.output_dir.exists()


def test_a_cluster_that_wants_a_token_says_how_to_give_it(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = make()
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"wants a token, and none was found.*RAY_AUTH_TOKEN"):
        train(config)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with pytest.raises(ConfigError, match="does not take the token that was found"):
        train(config)
    assert not config.output_dir.exists()
