import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from retrain.cli.main import app
from retrain.report.metrics import MetricsLog


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "calculator"
    folder.mkdir()
    with MetricsLog(folder / "metrics.jsonl") as log:
        log.write(1, {"reward/mean": 0.5})
    return folder


def test_the_page_is_served_until_it_is_told_to_stop(run: Path) -> None:
    command = [sys.executable, "-m", "retrain", "view", str(run), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}api/runs", timeout=60) as answer:
            assert json.load(answer) == {"title": "calculator", "runs": ["calculator"]}
        foreign = urllib.request.Request(url, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(foreign, timeout=60)
        following = urllib.request.urlopen(f"{url}api/events/calculator", timeout=60)
        assert following.readline() == b"event: change\n"
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0
        following.close()


def test_one_file_is_written(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    result = CliRunner().invoke(app, ["view", str(run), "--html", str(path), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.output) == {"file": str(path), "episodes": 0, "of": 0}
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("name", ["absent", ""])
def test_a_path_that_holds_no_run_is_bad_input(tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(app, ["view", str(tmp_path / name)])
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert len(result.output.splitlines()) == 1


def test_a_port_that_is_taken_is_named(run: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["view", str(run), "--port", str(port), "--no-browser"])
    assert result.exit_code == 2
    assert f"--port {port}: is in use" in result.output


def test_a_missing_package_is_named_with_its_pip_command(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.startswith("retrain.view.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(app, ["view", str(run)])
    assert result.exit_code == 2
    assert "pip install 'retrain[view]'" in result.output
