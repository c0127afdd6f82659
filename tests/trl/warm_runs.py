"""Training runs that a test kills, in processes of their own that begin with torch and TRL loaded.

They are forked from one process that has imported them and nothing else, so a run begins in about
a second; it is a process like any other, and SIGKILL ends it like any other.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest

from retrain.config import load_config
from retrain.training import train

LOADED = ["transformers", "trl.trainer.grpo_trainer", "backends.trl.grpo", "backends.trl.running"]

MOST_CPU_SECONDS = 240.0
"""CPU time that a run may take until it has made progress. How busy the machine is does not count;
a run that waits for nothing at all meets the test's own timeout."""


def start(config: Path, *, resume: bool, errors: Path, gloo: bool = False) -> BaseProcess:
    """Begin a run; what it says goes to `errors`. With `gloo`, it sends weights to a server so."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    process = context.Process(target=_train, args=(config, resume, errors, gloo))
    process.start()
    return process


def _train(config: Path, resume: bool, errors: Path, gloo: bool) -> None:
    with errors.open("wb") as stream:
        os.dup2(stream.fileno(), 2)
    with pytest.MonkeyPatch.context() as patch:
        if gloo:
            from gloo_weights import send_over_gloo  # TRL, which is loaded in this process alone

            send_over_gloo(patch)
        train(load_config(config), resume=resume)


def wait_until(progress: Callable[[], bool], process: BaseProcess, errors: Path) -> None:
    """Wait for a run that is to be killed."""
    used = psutil.Process(process.pid)
    while not progress():
        assert process.is_alive(), errors.read_text()
        times = used.cpu_times()
        assert times.user + times.system < MOST_CPU_SECONDS, errors.read_text()
        time.sleep(0.05)


def kill_at_random(
    process: BaseProcess, progress: Callable[[], bool], rng: random.Random, errors: Path
) -> None:
    """Kill a run: three times of four within seconds of its progress, else while it begins."""
    if rng.random() < 0.75:
        wait_until(progress, process, errors)
        time.sleep(rng.uniform(0.0, 2.0))
    else:
        time.sleep(rng.uniform(0.0, 4.0))
    assert process.is_alive(), errors.read_text()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
