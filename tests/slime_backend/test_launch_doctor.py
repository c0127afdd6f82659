from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from backends.slime import cluster_check
from backends.slime.cluster import ADDRESS_VARIABLE
from backends.slime.cluster_check import cluster_problems
from backends.slime.cluster_token import find_token

TOKEN = "t" * 64


class JobServer(ThreadingHTTPServer):
    """Answers what Ray's job server answers to the questions that are asked."""

    gpus = 0
    token = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: JobServer

    def do_GET(self) -> None:
        sent = self.headers.get("Authorization")
        if self.server.token and sent != f"Bearer {self.server.token}":
            self.send_error(403 if sent else 401)
            return
        resources = {"CPU": 8.0, **({"GPU": self.server.gpus} if self.server.gpus else {})}
        node = {"node_id": "n", "node_ip": "10.0.0.1", "state": "ALIVE"}
        rows = [{**node, "resources_total": resources}, {"state": "DEAD"}]
        body = json.dumps({"data": {"result": {"result": rows}}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def ray() -> Iterator[JobServer]:
    server = JobServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _nobody_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(cluster_check, "LOCAL", "http://127.0.0.1:1")
    monkeypatch.setattr(cluster_check, "_DEVICES", (tmp_path / "nvidia0",))


def joined(server: JobServer, **more: str) -> list[str]:
    environment = {ADDRESS_VARIABLE: server.url, **more}
    return [str(problem) for problem in cluster_problems(environment) if problem.stops]


def test_a_ray_with_gpus_is_in_order(ray: JobServer) -> None:
    ray.gpus = 8
    assert joined(ray) == []


def test_a_ray_without_gpus_is_told_how_to_get_them(ray: JobServer) -> None:
    (message,) = joined(ray)
    assert "has no GPU" in message
    assert "ray start --num-gpus=N" in message


def test_a_ray_that_wants_a_token_says_where_it_comes_from(ray: JobServer) -> None:
    ray.token, ray.gpus = TOKEN, 8
    (message,) = joined(ray)
    assert "wants a token, and none was found" in message
    assert "ray get-auth-token" in message
    (message,) = joined(ray, RAY_AUTH_TOKEN="wrong")
    assert "does not take the token" in message
    assert joined(ray, RAY_AUTH_TOKEN=TOKEN) == []


def test_an_address_where_nobody_answers_is_named() -> None:
    (problem,) = cluster_problems({ADDRESS_VARIABLE: "127.0.0.1:1"})
    assert "no Ray job server answers at http://127.0.0.1:1" in problem.message


def test_a_machine_without_a_gpu_is_told_about_the_container(tmp_path: Path) -> None:
    (problem,) = cluster_problems({})
    assert "docker run --gpus all" in problem.message
    assert "slimerl/slime:latest" in problem.message
    (tmp_path / "nvidia0").touch()
    assert cluster_problems({}) == []


def test_a_ray_that_runs_here_is_only_mentioned(
    ray: JobServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(cluster_check, "LOCAL", ray.url)
    (problem,) = cluster_problems({})
    assert not problem.stops
    assert f"cluster.address={ray.url}" in problem.message
    ray.token = TOKEN
    (problem,) = cluster_problems({})
    assert not problem.stops
    assert "wants a token" in problem.message


def test_a_token_is_looked_for_where_ray_documents(tmp_path: Path) -> None:
    assert find_token({}) is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("from home\n")
    (tmp_path / "named").write_text("from a file")
    assert find_token({}) == "from home"
    assert find_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "named")}) == "from a file"
    assert find_token({"RAY_AUTH_TOKEN": "given"}) == "given"
    assert find_token({"RAY_AUTH_TOKEN": "given", "RAY_AUTH_MODE": "disabled"}) is None
