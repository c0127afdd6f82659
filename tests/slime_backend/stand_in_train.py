"""Stands where slime's train.py stands: takes its command line, logs and saves as it does.

STAND_IN in the environment says what goes wrong: "fail:N" raises in rollout N, "hang:N" waits
there for ever.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import time
from argparse import Namespace
from importlib import import_module
from pathlib import Path

from retrain.rollout.state_file import State, write_state

FORMAT = "[2026-08-01 10:00:00] model.py:918 - %(message)s"


def option(name: str, default: str = "") -> str:
    flag = f"--{name}"
    return sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv else default


def log(text: str) -> None:
    logging.getLogger("slime.stand_in").info(text)


def begin_step(handover: dict[str, str], rollout: int) -> None:
    """Call the hook that slime calls ahead of an optimizer step."""
    module, _, name = option("custom-megatron-before-train-step-hook-path").rpartition(".")
    sizes = ("rollout-batch-size", "n-samples-per-prompt", "global-batch-size")
    args = Namespace(**handover, **{size.replace("-", "_"): int(option(size)) for size in sizes})
    optimizer = Namespace(param_groups=[{"lr": 1e-06}])
    getattr(import_module(module), name)(args, rollout, 0, [], optimizer, None)


def first_rollout(save: Path) -> int:
    tracker = save / "latest_checkpointed_iteration.txt"
    return int(tracker.read_text()) + 1 if tracker.exists() else 0


def save_checkpoint(save: Path, rollout: int) -> None:
    weights = save / f"iter_{rollout:07d}"
    weights.mkdir(parents=True)
    (weights / "common.pt").write_bytes(b"weights")
    (save / "latest_checkpointed_iteration.txt").write_text(str(rollout))
    model = Path(option("save-hf").format(rollout_id=rollout))
    shutil.copytree(option("hf-checkpoint"), model)
    (model / "model.safetensors.index.json").write_text(json.dumps({"rollout": rollout}))


def main() -> None:
    handover = json.loads(Path(option("custom-config-path")).read_text())
    run, save = Path(handover["retrain_run_dir"]), Path(option("save"))
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=FORMAT)
    fault, _, at = os.environ.get("STAND_IN", "").partition(":")
    seen = {name: os.environ.get(name) for name in ("PYTHONPATH", "CUDA_DEVICE_MAX_CONNECTIONS")}
    log(f"environment {json.dumps(seen)}")
    log(f"the key is {os.environ.get('STAND_IN_API_KEY')}")
    for rollout in range(first_rollout(save), int(option("num-rollout"))):
        path = run / "state" / f"data-{rollout}.json"
        write_state(path, "slime data state", State({"rollout": rollout}))
        row = {"iteration": rollout + 1, "time": 1.0, "reward/mean": rollout / 10}
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        if at == str(rollout) and fault == "fail":
            raise ValueError(f"the batch of rollout {rollout} is empty\n  while packing")
        if at == str(rollout) and fault == "hang":
            log("waiting for ever")
            time.sleep(600)
        begin_step(handover, rollout)
        rates = "'train/grad_norm': nan, 'train/lr-pg_0': 9e-07"
        log(f"step {rollout}: {{'train/loss': 0.25, {rates}}}")
        log(f"perf {rollout}: {{'perf/actor_train_time': 1.5, 'perf/train_time': 2.0}}")
        save_checkpoint(save, rollout)


if __name__ == "__main__":
    main()
