"""`retrain serve` as a process: ready line, mistakes, and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from retrain.cli.main import app

httpx = pytest.importorskip("httpx", reason="needs httpx: pip install 'retrain[http]'")
pytest.importorskip("torch", reason="needs torch: pip install 'retrain[engine]'")
pytest.importorskip("fastapi", reason="needs fastapi: pip install 'retrain[serve]'")

PARENT = """
import subprocess, sys
command = [sys.executable, "-m", "retrain", *sys.argv[1:]]
child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), end="", flush=True)
sys.stdin.read()
"""
QUIET = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts a process and waits for its first line."""
    processes: list[subprocess.Popen[str]] = []

    def run(*command: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen([sys.executable, *command], text=True, env=QUIET, **pipes)
        processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        return process, json.loads(line)

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def serve(model: Path, *options: str) -> list[str]:
    return ["serve", str(model), "--port", "0", "--threads", "1", "--json", *options]


def gone(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def wait_until_gone(port: int) -> None:
    until = time.monotonic() + 20
    while not gone(port):
        assert time.monotonic() < until, "the port is still answered"
        time.sleep(0.05)


def test_terminated_server_answers_what_it_has_and_frees_its_port(
    tiny_model: Path, start: Any
) -> None:
    process, ready = start("-m", "retrain", *serve(tiny_model))
    assert ready["pid"] == process.pid
    assert ready["model"] == str(tiny_model)
    assert ready["context_length"] == 512
    turn = {"input_ids": [1], "sampling_params": {"max_new_tokens": 4}}
    reply = httpx.post(f"{ready['url']}/generate", json=turn, timeout=20, trust_env=False)
    assert reply.json()["meta_info"]["completion_tokens"] == 4
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")
    assert gone(int(ready["url"].rpartition(":")[2]))


def test_server_ends_with_the_process_that_started_it(tiny_model: Path, start: Any) -> None:
    parent, ready = start("-c", PARENT, *serve(tiny_model, "--exit-with-parent"))
    port = int(ready["url"].rpartition(":")[2])
    assert not gone(port)
    parent.kill()
    wait_until_gone(port)


def failure(*arguments: str, env: dict[str, str] | None = None) -> str:
    result = CliRunner().invoke(app, ["serve", *arguments], env=env)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.output


def test_port_in_use_is_one_clear_error(tiny_model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = failure(str(tiny_model), "--port", str(port))
    assert message == (
        f"error: --port {port}: is in use on 127.0.0.1; name another, or 0 for a free one\n"
    )


def test_other_machines_are_let_in_with_a_token_only(tiny_model: Path) -> None:
    message = failure(str(tiny_model), "--host", "0.0.0.0", env={"RETRAIN_SERVE_TOKEN": ""})
    assert "--host 0.0.0.0: is reachable from other machines" in message
    assert "RETRAIN_SERVE_TOKEN" in message


def test_wrong_options_are_named(tiny_model: Path, tmp_path: Path) -> None:
    assert "cannot be loaded" in failure(str(tmp_path / "nowhere"), "--port", "0")
    assert "--dtype: Input should be 'auto'" in failure(
        str(tiny_model), "--port", "0", "--dtype", "int3"
    )
    longer = failure(str(tiny_model), "--port", "0", "--context-length", "100000")
    assert "the model knows 512 positions" in longer
    file = tmp_path / "file"
    file.write_text("")
    message = failure(str(tiny_model), "--port", "0", "--weights-dir", str(file))
    assert f"--weights-dir {file}: is a file" in message


def test_missing_package_is_named(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    message = failure(str(tiny_model), "--port", "0")
    assert "retrain serve needs fastapi" in message
    assert "pip install 'retrain[serve]'" in message
