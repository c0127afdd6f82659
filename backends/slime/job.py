"""One Ray job: submitted, followed to its end, and stopped where this process stops."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.slime.cluster import RayCluster
from backends.slime.job_environment import slime_root
from backends.slime.job_watch import JobWatch
from backends.slime.launch_spec import SlimeLaunch
from retrain.errors import BackendFailure, ConfigError, RetrainError
from retrain.report.atomic import replace_bytes

JOB = Path("state") / "job.json"
"""Which job a run has submitted, while it runs: a killed launcher leaves it behind."""

_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.5
_TRIES = 5

Note = Callable[[str], None]
"""Shows a message."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended.

    Attributes:
        succeeded: Whether the script ended with 0.
        message: What Ray says about it.
    """

    succeeded: bool
    message: str


def run_job(
    launch: SlimeLaunch, cluster: RayCluster, note: Note, *, silence: float = 600.0
) -> JobEnd:
    """Submit slime's script to Ray and follow it to its end; blocks.

    Args:
        launch: What to start.
        cluster: Where.
        note: Told what the user should know while it runs.
        silence: Seconds without a line after which the user is told.

    Raises:
        KeyboardInterrupt: Ctrl-C; the job is stopped.
        BackendFailure: Ray refuses the job, or answers no longer.
    """
    client = cluster.client()
    job_id = f"retrain-{launch.config.experiment_name}-{secrets.token_hex(4)}"
    record = launch.run_dir / JOB
    row = {"address": cluster.address, "private": cluster.private, "job": job_id}
    replace_bytes(record, (json.dumps(row) + "\n").encode())
    try:
        _submit(client, job_id, launch, cluster)
        asyncio.run(_follow(client, job_id, launch, JobWatch(cluster, note, silence)))
        end = _end(client, job_id)
    except BaseException:
        stop_job(client, job_id)
        record.unlink(missing_ok=True)
        raise
    record.unlink(missing_ok=True)
    return end


def stop_left_over(run_dir: Path, cluster: RayCluster, note: Note) -> None:
    """Stop the job that a killed launcher of this run has left on a cluster.

    Args:
        run_dir: The run folder, held by this process.
        cluster: The cluster that goes on with it.
        note: Told when there is one.
    """
    record = run_dir / JOB
    if not record.exists():
        return
    row = json.loads(record.read_text(encoding="utf-8"))
    if not row["private"] and row["address"] != cluster.address:
        raise ConfigError(
            f"cluster.address: the run's job {row['job']} may still be running at "
            f"{row['address']}; resume there, or stop it (ray job stop) and remove {record}"
        )
    if not row["private"]:
        note(f"stopping the job {row['job']} that an earlier start of this run has left")
        stop_job(cluster.client(), row["job"])
    record.unlink()


def stop_job(client: Any, job_id: str) -> None:
    """Stop a job and wait until it has ended; does nothing where it is gone."""
    try:
        client.stop_job(job_id)
        deadline = time.monotonic() + _STOP_SECONDS
        while not client.get_job_status(job_id).is_terminal():
            if time.monotonic() > deadline:
                raise BackendFailure(
                    f"Ray did not stop the job {job_id} within {_STOP_SECONDS:.0f} s; "
                    f"look at it with: ray job status {job_id}"
                )
            time.sleep(_POLL_SECONDS)
    except (OSError, RuntimeError) as error:
        if isinstance(error, BackendFailure):
            raise
        logging.getLogger(__name__).warning(
            "the job %s could not be stopped and may go on (%s); look at it with: ray job status",
            job_id,
            error,
        )


def entrypoint(launch: SlimeLaunch, *, private: bool) -> str:
    """The job's command line, as a shell takes it."""
    python = sys.executable if private else "python3"
    return shlex.join([python, str(slime_root(launch.config) / launch.entry), *launch.argv])


def _submit(client: Any, job_id: str, launch: SlimeLaunch, cluster: RayCluster) -> None:
    command = entrypoint(launch, private=cluster.private)
    for left in reversed(range(_TRIES)):
        try:
            client.submit_job(
                entrypoint=command,
                submission_id=job_id,
                runtime_env={"env_vars": dict(launch.env)},
                metadata={"retrain": launch.config.title},
            )
            return
        except (OSError, RuntimeError) as error:
            if not left or "No available agent" not in str(error):
                raise BackendFailure(f"Ray refuses the job: {str(error).strip()}") from error
            time.sleep(1.0)


async def _follow(client: Any, job_id: str, launch: SlimeLaunch, watch: JobWatch) -> None:
    """Give out every line of the log once, over broken connections too."""
    watching = asyncio.create_task(watch.run())
    given = 0
    try:
        while True:
            given += await _tail(client, job_id, launch, watch, skip=given)
            if await _has_ended(client, job_id):
                return
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        watching.cancel()


async def _tail(
    client: Any, job_id: str, launch: SlimeLaunch, watch: JobWatch, *, skip: int
) -> int:
    """Follow the log over one connection, which begins with its first line.

    Returns:
        How many lines were given out.
    """
    from aiohttp import ClientError

    seen, rest = 0, ""
    try:
        async for chunk in client.tail_job_logs(job_id):
            *lines, rest = (rest + chunk).split("\n")
            for line in lines:
                seen += 1
                if seen > skip:
                    watch.heard()
                    launch.on_line(line)
    except (ClientError, OSError, RuntimeError) as error:
        if isinstance(error, RetrainError):
            raise
        return max(0, seen - skip)
    if rest and seen >= skip:
        launch.on_line(rest)
        seen += 1
    return max(0, seen - skip)


async def _has_ended(client: Any, job_id: str) -> bool:
    for left in reversed(range(_TRIES)):
        try:
            status = await asyncio.to_thread(client.get_job_status, job_id)
            return bool(status.is_terminal())
        except (OSError, RuntimeError) as error:
            if not left:
                raise BackendFailure(
                    "Ray's job server answers no longer: its head node, or Ray on it, has ended. "
                    "What was saved is there: go on with --resume"
                ) from error
            await asyncio.sleep(2.0)
    raise AssertionError("unreachable")


def _end(client: Any, job_id: str) -> JobEnd:
    info = client.get_job_info(job_id)
    succeeded = info.status.value == "SUCCEEDED"
    message = str(info.message or info.status.value).partition("\n")[0]
    return JobEnd(succeeded, message)
