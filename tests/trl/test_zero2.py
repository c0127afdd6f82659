"""DeepSpeed ZeRO-2 and FSDP as `accelerate launch` starts them: two real processes over gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from test_dead_rank import environment, free_port

from backends.trl.backend import TRLBackend
from backends.trl.exporting import export_run
from retrain.config import dump_config, load_config
from retrain.errors import ConfigError
from retrain.report.metrics import read_metrics

HERE = Path(__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

needs_deepspeed = pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="needs DeepSpeed: pip install deepspeed"
)
ZERO2 = ("--use_deepspeed", "--zero_stage", "2")
DDP = ("--cpu",)


def launch(how: tuple[str, ...], script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`accelerate launch HOW SCRIPT` in two processes; the first one builds DeepSpeed's op."""
    module = [sys.executable, "-m", "accelerate.commands.launch", *how]
    module += ["--num_processes", "2", "--num_machines", "1", "--machine_rank", "0"]
    module += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    module += ["--main_process_port", str(free_port())]
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [*module, str(HERE / script), *arguments],
        env=environment(PATH=tools),
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture
def written(config: Any, tmp_path: Path) -> Any:
    def write(name: str, **hyper: Any) -> Path:
        made = config(rollout_batch_size=4, trl_per_device_train_batch_size=2, **hyper)
        path = tmp_path / f"{name}.yaml"
        path.write_text(dump_config(made.model_copy(update={"output_dir": tmp_path / name})))
        return path

    return write


@needs_deepspeed
def test_zero_2_trains_what_ddp_trains(written: Any, tmp_path: Path) -> None:
    """One optimizer step over the same rows: the same gradient, loss and weights."""
    norms, rows = {}, {}
    for name, how in (("zero2", ZERO2), ("ddp", DDP)):
        path = written(name, num_iterations=1, global_batch_size=16)
        done = launch(how, "rank_run.py", str(path), str(tmp_path / f"out_{name}"))
        assert done.returncode == 0, done.stderr[-3000:]
        norms[name] = json.loads((tmp_path / f"out_{name}.0.json").read_text())["norms"]
        (rows[name],) = read_metrics(tmp_path / name / "metrics.jsonl")
    assert norms["zero2"] == pytest.approx(norms["ddp"], rel=1e-6)
    for metric in ("train/grad_norm", "train/loss"):
        assert rows["zero2"].values[metric] == pytest.approx(rows["ddp"].values[metric], rel=1e-4)


@needs_deepspeed
def test_zero_2_run_resumes_and_is_exported(written: Any, tmp_path: Path) -> None:
    path = written("run", num_iterations=2, global_batch_size=8, save_interval=1)
    done = launch(ZERO2, "killable_run.py", str(path))
    assert done.returncode == 0, done.stderr[-3000:]
    longer = load_config(path, ["algorithm.hyperparameters.num_iterations=3"])
    path.write_text(dump_config(longer))
    again = launch(ZERO2, "killable_run.py", str(path), "--resume")
    assert again.returncode == 0, again.stderr[-3000:]
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [row.iteration for row in rows] == [1, 2, 3]
    gaps = [row.values["train/logprob_abs_diff"] for row in rows]
    assert max(gaps) < 1e-4, "the engine plays the weights that DeepSpeed has moved"

    model = export_run(tmp_path / "run", tmp_path / "exported")
    (tmp_path / "run" / "model").rename(tmp_path / "model-aside")
    of_checkpoint = export_run(tmp_path / "run", tmp_path / "of-checkpoint")
    for exported in (model, of_checkpoint):
        names = {entry.name for entry in exported.iterdir()}
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
        assert not any(name.startswith(("global_step", "latest", "zero_to")) for name in names)

    backend = TRLBackend()
    whole = backend.plan(load_config(path, ["algorithm.hyperparameters.num_iterations=4"]))
    with pytest.raises(ConfigError, match="'cut up by zero2 over 2 processes' then, 'whole' now"):
        backend.train(whole, resume=True)


def test_fsdp_is_refused_with_the_alternative_before_anything_is_written(
    written: Any, tmp_path: Path
) -> None:
    wrap = ("--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP")
    how = ("--use_fsdp", "--fsdp_version", "2", *wrap)
    done = launch(how, "killable_run.py", str(written("run")))
    assert done.returncode != 0
    assert "under FSDP each process holds a part of them" in done.stderr
    assert "launch without sharding (DDP or ZeRO-2)" in done.stderr
    assert not (tmp_path / "run").exists()
