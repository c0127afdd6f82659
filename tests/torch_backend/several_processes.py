"""Runs of the command line in several processes over gloo, with torchrun or without a launcher."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from retrain.config import RunConfig, dump_config

HERE = Path(__file__).parent
SECONDS = 280.0
"""Most time that a launch may take, on a busy machine."""

TRAIN = ("-m", "retrain", "train")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def environment(**variables: str) -> dict[str, str]:
    path = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables}


def torchrun(processes: int) -> list[str]:
    """The launcher's command, up to what it launches."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    return [*command, "--master-addr=127.0.0.1", f"--master-port={free_port()}"]


def launched(processes: int, made: RunConfig, *flags: str) -> subprocess.CompletedProcess[str]:
    """Train to the end; its run folder is the configuration's."""
    path = written(made)
    runner = torchrun(processes) if processes > 1 else [sys.executable]
    process = subprocess.Popen(
        [*runner, *TRAIN, str(path), *flags],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        output, errors = process.communicate(timeout=SECONDS)
    finally:
        process.terminate()  # which ends the ranks of a launcher, where a kill would leave them
        process.wait()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def trained(processes: int, made: RunConfig, *flags: str) -> Path:
    """Train to a good end; gives the run folder."""
    done = launched(processes, made, *flags)
    assert done.returncode == 0, done.stderr[-3000:]
    return made.output_dir


@contextmanager
def ranks(
    made: RunConfig,
    *,
    flags: Sequence[Sequence[str]] = ((), ()),
    largest_file: Sequence[int | None] = (None, None),
) -> Iterator[list[subprocess.Popen[str]]]:
    """Two ranks with nobody to end one when the other dies; none outlives the block.

    Args:
        made: The run.
        flags: Of each rank's command.
        largest_file: Bytes that a file of each rank may have; None does not limit it.
    """
    path, port = written(made), str(free_port())
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    def limit(most: int | None) -> None:
        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    started = [
        subprocess.Popen(
            [sys.executable, *TRAIN, str(path), *flags[rank]],
            env=environment(**place, RANK=str(rank), LOCAL_RANK=str(rank)),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            preexec_fn=lambda most=largest_file[rank]: limit(most),
        )
        for rank in (0, 1)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def written(made: RunConfig) -> Path:
    path = made.output_dir.with_name(f"{made.output_dir.name}.yaml")
    path.write_text(dump_config(made))
    return path
