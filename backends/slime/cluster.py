"""Ray's life cycle: join the cluster that is named, or hold a private one; end only one's own."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from backends.slime.cluster_token import find_token, token_problem
from retrain.config import RunConfig
from retrain.errors import BackendFailure, ConfigError, MissingDependency

ADDRESS_VARIABLE = "RAY_API_SERVER_ADDRESS"
INSTALL = "pip install 'retrain[slime]'"

_HOLDER = Path(__file__).with_name("cluster_holder.py")
_START_SECONDS = 240.0
_END_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_FOREIGN = ("RAY_ADDRESS", ADDRESS_VARIABLE)


@dataclass(frozen=True, slots=True)
class RayNode:
    """One node of a cluster.

    Attributes:
        id: Ray's id of it.
        ip: Its address.
        gpus: How many GPUs it offers.
    """

    id: str
    ip: str
    gpus: int


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A Ray that jobs can be submitted to.

    Attributes:
        address: Its job server, such as "http://10.0.0.1:8265".
        private: Whether this process started it.
        token: What it is asked with, where there is one; never written anywhere.
    """

    address: str
    private: bool
    token: str | None = field(default=None, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """What each request carries."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def client(self) -> Any:
        """A client of the job server.

        Raises:
            MissingDependency: Ray is not installed.
            ConfigError: Nothing answers, or it wants another token.
        """
        require_ray()
        from ray.exceptions import AuthenticationError
        from ray.job_submission import JobSubmissionClient

        try:
            return JobSubmissionClient(self.address, headers=self.headers)
        except AuthenticationError as error:
            raise ConfigError(token_problem(self.address, sent=self.token is not None)) from error
        except (OSError, RuntimeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"cluster.address: no Ray job server answers at {self.address} ({reason}); start "
                "Ray with its dashboard (ray start --head --dashboard-host=0.0.0.0), or leave "
                "cluster.address out for a private Ray on this machine"
            ) from error

    def nodes(self) -> tuple[RayNode, ...]:
        """The nodes that are alive, as Ray's state API lists them.

        Raises:
            OSError: The server does not answer, or not as expected.
        """
        request = urllib.request.Request(f"{self.address}/api/v0/nodes", headers=self.headers)
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as reply:
            rows = json.load(reply)["data"]["result"]["result"]
        return tuple(_node(row) for row in rows if row["state"] == "ALIVE")


def require_ray() -> None:
    """Refuse to go on without Ray.

    Raises:
        MissingDependency: Ray, or its dashboard, is not installed.
    """
    missing = [name for name in ("ray", "aiohttp") if find_spec(name) is None]
    if missing:
        raise MissingDependency(f"Ray with its job server is not installed; {INSTALL}")


def cluster_address(config: RunConfig) -> str | None:
    """The job server that a configuration or the environment names; None for a private Ray."""
    address = config.cluster.address or os.environ.get(ADDRESS_VARIABLE)
    return job_server(address) if address else None


def job_server(address: str) -> str:
    """An address as a URL without a slash at its end; "HEAD:8265" is taken for http."""
    return (address if "://" in address else f"http://{address}").rstrip("/")


@contextmanager
def ray_cluster(config: RunConfig) -> Iterator[RayCluster]:
    """A Ray for the time of a run: the one that is named, or one of its own.

    Args:
        config: Names the job server, or none.

    Raises:
        MissingDependency: Ray is not installed.
        ConfigError: Nothing answers at the address, or it wants a token.
        BackendFailure: A private Ray does not start.
    """
    require_ray()
    address = cluster_address(config)
    if address is not None:
        joined = RayCluster(address, private=False, token=find_token())
        joined.client()
        yield joined
        return
    with private_ray() as own:
        yield own


@contextmanager
def private_ray(*options: str) -> Iterator[RayCluster]:
    """Start a Ray on this machine, with a token of its own, and end it.

    It lives in a child process and ends with this process, even where that is killed.

    Args:
        *options: Further words of `ray start`, such as "--num-gpus=1".

    Raises:
        BackendFailure: It does not start; with what Ray said.
    """
    port, token = _free_port(), secrets.token_hex(32)
    folder = tempfile.mkdtemp(prefix="retrain-ray-", dir=_short_folder())
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        holder = _start(folder, port, token, options, log)
        try:
            cluster = RayCluster(f"http://127.0.0.1:{port}", private=True, token=token)
            _wait_until_ready(cluster, holder, log)
            yield cluster
        finally:
            _end(holder)


def _start(
    folder: str, port: int, token: str, options: tuple[str, ...], log: IO[str]
) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    own: Mapping[str, str] = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    words = [
        "--port=0",
        "--node-ip-address=127.0.0.1",
        "--include-dashboard=true",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={port}",
        "--dashboard-agent-listen-port=0",
        "--disable-usage-stats",
        *options,
    ]
    return subprocess.Popen(
        [sys.executable, "-P", str(_HOLDER), folder, *words],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        env={**environment, **own},
        start_new_session=True,  # Ctrl-C must reach the job first
    )


def _wait_until_ready(cluster: RayCluster, holder: subprocess.Popen[bytes], log: IO[str]) -> None:
    """Wait until the job server has an agent to give jobs to."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if holder.poll() is not None:
            raise BackendFailure(f"a private Ray did not start:\n{_last_lines(log)}")
        if _is_ready(cluster):
            return
        time.sleep(0.2)
    raise BackendFailure(
        f"a private Ray did not start within {_START_SECONDS:.0f} s:\n{_last_lines(log)}"
    )


def _is_ready(cluster: RayCluster) -> bool:
    try:
        return bool(cluster.nodes()) and _knows_agent(cluster)
    except (OSError, ValueError, KeyError, TypeError):  # not up yet
        return False


def _knows_agent(cluster: RayCluster) -> bool:
    """Whether the job server answers, and so knows the agent that runs jobs."""
    request = urllib.request.Request(f"{cluster.address}/api/jobs/", headers=cluster.headers)
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as reply:
        return bool(reply.status == 200)


def _end(holder: subprocess.Popen[bytes]) -> None:
    assert holder.stdin is not None
    holder.stdin.close()
    try:
        holder.wait(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait()


def _last_lines(log: IO[str], count: int = 15) -> str:
    log.seek(0)
    return "".join(log.readlines()[-count:]).strip()


def _node(row: Mapping[str, Any]) -> RayNode:
    gpus = int(row["resources_total"].get("GPU", 0))
    return RayNode(str(row["node_id"]), str(row["node_ip"]), gpus)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _short_folder() -> str | None:
    """Where Ray's sockets fit: a path of a UNIX socket has 107 bytes at most."""
    return "/tmp" if os.path.isdir("/tmp") else None
