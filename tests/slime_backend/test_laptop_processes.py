from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from backends.slime.laptop import processes
from backends.slime.laptop.processes import child
from retrain.errors import BackendFailure

ROOT = Path(__file__).parents[2]

WORK = """
import os, sys, time
try:
    print(os.getpid(), flush=True)
    time.sleep(600)
finally:
    open(sys.argv[1], "w").write("in good order")
"""
PARENT = """
import subprocess, sys, time
from pathlib import Path
from backends.slime.laptop.processes import child
folder = Path(sys.argv[1])
with child("leashed_work", [sys.argv[2]], folder=folder, stdout=subprocess.PIPE, stderr=None) as c:
    print(c.stdout.readline(), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "leashed_work.py").write_text(WORK)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(tmp_path))))
    return tmp_path


def within(seconds: float, done: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_a_child_is_interrupted_when_its_run_is_over(folder: Path) -> None:
    ended = folder / "ended"
    with child(
        "leashed_work",
        [str(ended)],
        folder=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None and int(process.stdout.readline()) == process.pid
    assert process.returncode is not None
    assert ended.read_text() == "in good order"


def test_a_child_ends_with_a_parent_that_was_killed(folder: Path) -> None:
    ended = folder / "ended"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder), str(ended)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    assert int(parent.stdout.readline()) > 0
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert within(30, lambda: ended.exists() and ended.read_text() == "in good order")


LEAVING = """
import os, signal, subprocess, sys
code = "import signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(%s)"
left = subprocess.Popen([sys.executable, "-c", code % sys.argv[1]], process_group=0)
print(left.pid, flush=True)
"""


@pytest.mark.parametrize("seconds", [0.5, 600])
def test_what_a_child_leaves_has_ended_when_it_returns(
    folder: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "SETTLE", 3.0)
    (folder / "leaving_work.py").write_text(LEAVING)
    with child(
        "leaving_work",
        [str(seconds)],
        folder=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        left = int(process.stdout.readline())
        assert os.getsid(left) == process.pid, "like a worker of Ray's: its own group, our session"
    assert not running(left)


def test_a_resumed_run_waits_for_what_a_killed_one_left(tmp_path: Path) -> None:
    variables = {"OF_THE_RUN": str(tmp_path), "SLIME_ACCELERATOR": "cpu"}
    ended = tmp_path / "ended"
    code = "import sys, time; time.sleep(1); open(sys.argv[1], 'w').write('')"
    command = [sys.executable, "-c", code, str(ended)]
    left = subprocess.Popen(command, env={**os.environ, **variables})
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, "SLIME_ACCELERATOR": "cpu"})
    try:
        processes.wait_for_left_over(variables)
        assert ended.exists()
        assert other.poll() is None, "another run's"
    finally:
        other.kill()
        other.wait()
        left.wait()


def test_what_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", -processes.SETTLE - processes._KILL)
    variables = {"OF_THE_RUN": str(tmp_path)}
    left = subprocess.Popen(["sleep", "600"], env={**os.environ, **variables})
    try:
        with pytest.raises(BackendFailure, match=f"still running: {left.pid}; end them"):
            processes.wait_for_left_over(variables)
    finally:
        left.kill()
        left.wait()


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
