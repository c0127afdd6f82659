"""What `retrain doctor` says about the cluster: GPUs here, a Ray that answers or wants a token."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from backends.base import Problem, Severity
from backends.slime.cluster import ADDRESS_VARIABLE, RayCluster, job_server
from backends.slime.cluster_token import find_token, token_problem

LOCAL = "http://127.0.0.1:8265"
"""Where a Ray on this machine has its job server, unless told otherwise."""

_DEVICES = (Path("/dev/nvidia0"), Path("/dev/kfd"))
_SECONDS = 2.0
_NO_GPU = (
    "no GPU on this machine; name a cluster that has some (cluster.address, or "
    f"{ADDRESS_VARIABLE}=http://HEAD:8265), run slime's container on a machine with GPUs (docker "
    "run --gpus all --ipc=host --shm-size=16g --ulimit memlock=-1 -it slimerl/slime:latest), or "
    "debug without one (slime_laptop)"
)


def cluster_problems(environment: Mapping[str, str] = os.environ) -> list[Problem]:
    """Look for GPUs, and at the Ray that a run would join.

    Args:
        environment: Environment variables; `RAY_API_SERVER_ADDRESS` names the Ray to join.
    """
    named = environment.get(ADDRESS_VARIABLE)
    if named:
        return _named(job_server(named), environment)
    found = [] if any(device.exists() for device in _DEVICES) else [Problem("", _NO_GPU)]
    return [*found, *_local(environment)]


def _named(address: str, environment: Mapping[str, str]) -> list[Problem]:
    token = find_token(environment)
    status = _status(address, token)
    if status is None:
        return [
            Problem(
                "",
                f"{ADDRESS_VARIABLE}: no Ray job server answers at {address}; start one "
                "with ray start --head --dashboard-host=0.0.0.0, or unset the variable",
            )
        ]
    if status in (401, 403):
        return [Problem("", token_problem(address, sent=token is not None))]
    gpus = _gpus(RayCluster(address, private=False, token=token))
    if gpus == 0:
        return [
            Problem(
                "",
                f"{ADDRESS_VARIABLE}: the Ray at {address} has no GPU; start its nodes "
                "with ray start --num-gpus=N",
            )
        ]
    return []


def _local(environment: Mapping[str, str]) -> list[Problem]:
    """A Ray that runs here and that a run would not join by itself."""
    token = find_token(environment)
    status = _status(LOCAL, token)
    if status is None:
        return []
    if status in (401, 403):
        wrong = token_problem(LOCAL, sent=token is not None)
        return [Problem("", f"to join it rather than start a private one: {wrong}", _WARNING)]
    text = f"a Ray runs here; to join it rather than start a private one: cluster.address={LOCAL}"
    return [Problem("", text, _WARNING)]


_WARNING = Severity.WARNING


def _status(address: str, token: str | None) -> int | None:
    """The HTTP status of a job server; None where nothing answers."""
    cluster = RayCluster(address, private=False, token=token)
    request = urllib.request.Request(f"{address}/api/version", headers=cluster.headers)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError):
        return None


def _gpus(cluster: RayCluster) -> int | None:
    try:
        return sum(node.gpus for node in cluster.nodes())
    except (OSError, ValueError, KeyError):
        return None
