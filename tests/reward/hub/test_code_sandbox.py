"""What a program may not do, and that nothing of it is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case
from retrain.reward.hub.code_answer import code
from retrain.reward.hub.pool import close_pools, code_pool
from retrain.sandbox.limits import MEBIBYTE, Finished, Level, Limits, Program, Stopped
from retrain.sandbox.processes import descendants
from retrain.sandbox.running import isolation_level, run_isolated

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="programs are run on Linux only"),
    pytest.mark.filterwarnings("ignore:programs run on the level"),
]

SMALL = Limits(
    seconds=10.0, memory=256 * MEBIBYTE, processes=16, disk=8 * MEBIBYTE, output=MEBIBYTE
)
BRIEF = Limits(seconds=0.5, memory=256 * MEBIBYTE)


def run(program: str, level: Level, limits: Limits = SMALL) -> Finished:
    return run_isolated(Program(("main.py",), "", {"main.py": program}), limits, level)


@pytest.fixture(params=["best", "none"])
def level(request: pytest.FixtureRequest) -> Level:
    return isolation_level(request.param)


@pytest.fixture
def alone() -> Level:
    found = isolation_level("best")
    if found is not Level.NAMESPACES:
        pytest.skip("this machine allows no namespaces")
    return found


ENDED = {
    "loops": ("while True: pass", Stopped.SECONDS),
    "ignores every signal": (
        "import signal, time\n"
        "for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "time.sleep(60)",
        Stopped.SECONDS,
    ),
    "prints without end": ("while True: print('x' * 10000)", Stopped.OUTPUT),
    "complains without end": (
        "import sys\nwhile True: print('x' * 10000, file=sys.stderr)",
        Stopped.OUTPUT,
    ),
    "takes memory in many processes": (
        "import os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0:\n"
        "        held = b'x' * (100 * 2**20)\n"
        "        time.sleep(60)\n"
        "time.sleep(60)",
        Stopped.MEMORY,
    ),
}


@pytest.mark.parametrize("name", ENDED)
def test_a_limit_ends_a_program_that(name: str, level: Level) -> None:
    program, stopped = ENDED[name]
    limits = BRIEF if stopped is Stopped.SECONDS else SMALL
    finished = run(program, level, limits)
    assert (finished.code, finished.stopped) == (None, stopped)
    assert len(finished.stdout) <= limits.output
    assert len(finished.stderr) <= 4000
    assert not left_of_programs()


REFUSED = {
    "takes memory": "x = b'x' * 10**10",
    "writes a long file": "open('x', 'wb').write(b'x' * (17 * 2**20))",
    "opens many files": "files = [open('main.py') for _ in range(100)]",
    "fills the disk": "for i in range(100): open(str(i), 'wb').write(b'x' * 2**20)\n"
    "import time\ntime.sleep(60)",
    "starts many processes": "import os, time\n"
    "for _ in range(100):\n    if os.fork() == 0: time.sleep(60)\ntime.sleep(60)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_or_a_limit_meets_a_program_that(name: str, level: Level) -> None:
    finished = run(REFUSED[name], level)
    assert finished.code != 0
    assert finished.stopped in (None, Stopped.DISK, Stopped.PROCESSES, Stopped.MEMORY)
    assert finished.seconds < SMALL.seconds
    assert not left_of_programs()


def test_a_fork_bomb_goes_off_in_its_own_namespace(alone: Level) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert run(bomb, alone).stopped is Stopped.PROCESSES
    assert not left_of_programs()


def test_a_daemon_ends_with_the_program_that_started_it(level: Level) -> None:
    program = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        for descriptor in range(3): os.close(descriptor)
        time.sleep(60)
    os._exit(0)
print("done")
"""
    finished = run(program, level)
    assert (finished.code, finished.stdout) == (0, "done\n")
    assert not left_of_programs()


def test_the_surroundings_of_a_program_are_empty(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret-token")
    close_pools()  # so that the processes of the next pool have the token
    finished = run(
        "import os, sys\nprint(sorted(os.environ))\nprint(os.listdir('.'), len(sys.argv))\n"
        "print(os.path.realpath('/proc/self/fd/0')[:6], os.listdir('/proc/self/fd'))",
        level,
    )
    assert "TOKEN" not in finished.stdout
    assert "['main.py'] 1\n/memfd ['0', '1', '2', '3']" in finished.stdout  # 3 is the folder itself


SIGHTS = {
    "reads a file of the machine": "print(open('/etc/passwd').read())",
    "reads the home folder": "import os\nprint(os.listdir(os.path.expanduser('~root') + '/.ssh'))",
    "reads this file": f"print(open({__file__!r}).read())",
    "writes to the installation": "import os\nopen(os.__file__, 'a')",
    "opens a connection": "import socket\nsocket.create_connection(('127.0.0.1', PORT), 5)",
    "asks for a name": "import socket\nsocket.getaddrinfo('localhost.example.org', 80)",
    "enters a namespace of its own": "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    "assert libc.unshare(0x10000000) == 0",
    "mounts": "import ctypes\nlibc = ctypes.CDLL(None)\n"
    "assert libc.mount(b'x', b'/program', b'tmpfs', 0, 0) == 0",
    "makes itself root": "import os\nos.setuid(0)",
    "signals its parent": "import os, time\nos.kill(1, 9)\ntime.sleep(0.2)\n"
    "assert os.getppid() == 0",
}


@pytest.mark.parametrize("name", SIGHTS)
def test_a_namespace_stops_a_program_that(name: str, alone: Level) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        finished = run(SIGHTS[name].replace("PORT", str(port)), alone)
    assert finished.code == 1
    assert finished.stderr.startswith("Traceback")


def test_a_program_sees_no_process_but_its_own(alone: Level) -> None:
    finished = run(
        "import os\nprint([name for name in os.listdir('/proc') if name.isdigit()])", alone
    )
    assert finished.stdout in ("['1', '2']\n", "[]\n")


def test_what_one_program_writes_the_next_does_not_find(level: Level) -> None:
    program = "import os\nprint(os.listdir('.'))\nopen('mark', 'w')"
    assert run(program, level).stdout == run(program, level).stdout == "['main.py']\n"


_FORBIDDEN = """
echo 0 > /proc/sys/user/max_user_namespaces
exec "$0" -c "
import warnings
from retrain.sandbox.running import isolation_level
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    print(isolation_level('best'), isolation_level('best'), len(caught), caught[0].message)
try: isolation_level('required')
except ValueError as error: print(error)
"
"""


def test_without_namespaces_that_is_found_out_and_said_once(alone: Level) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare command")
    inside = [unshare, "--user", "--map-root-user", "sh", "-c", _FORBIDDEN, sys.executable]
    done = subprocess.run(inside, capture_output=True, text=True)
    said = done.stdout.splitlines()
    assert said[0].startswith("limits limits 1 programs run on the level 'limits', without"), done
    assert "unshare: No space left on device" in said[0]  # as the kernel calls too many namespaces
    assert said[1].startswith("isolation: required, but this machine allows no namespaces (")


_OWNER = """
import sys
from retrain.sandbox.limits import Level, Limits, Program
from retrain.sandbox.running import run_isolated
program = "import time; print(1, flush=True); time.sleep(60)"
run_isolated(Program(("-c", program, sys.argv[1])), Limits(seconds=60.0), Level(sys.argv[2]))
"""


def test_a_program_ends_with_the_run_that_is_killed(level: Level, tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-{level}"
    surroundings = {**os.environ, "TMPDIR": str(tmp_path)}  # without namespaces a folder is left
    command = [sys.executable, "-c", _OWNER, mark, level]
    owner = subprocess.Popen(command, env=surroundings)
    try:
        assert eventually(lambda: "time.sleep(60)" in commands_with(mark))
    finally:
        owner.kill()
        owner.wait()
    assert eventually(lambda: not commands_with(mark))


def commands_with(mark: str) -> str:
    """The command lines of processes that name something, but for the owner's."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            command = path.read_bytes().decode(errors="replace")
            if mark in command and "run_isolated" not in command:
                found.append(command)
    return "\n".join(found)


def eventually(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 30
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def test_folders_that_are_deep_or_closed_are_removed_too() -> None:
    program = """
import os
for _ in range(2000):
    os.mkdir("d")
    os.chdir("d")
os.chdir(os.environ["HOME"])
os.mkdir("closed")
open("closed/file", "w")
os.chmod("closed", 0)
"""
    assert run(program, Level.LIMITS).seconds < SMALL.seconds
    assert not left_of_programs()


def test_a_program_that_cannot_be_started_is_a_failure() -> None:
    with pytest.raises(RewardFailure, match="could not be started: FileNotFoundError"):
        run_isolated(Program(("main.py",), "", {"no/folder": ""}), SMALL, Level.LIMITS)


ADVERSARIES: list[Callable[[int], str]] = [
    lambda i: f"print({i})",
    lambda i: "while True: pass",
    lambda i: "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    lambda i: "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass",
    lambda i: "while True: print('x' * 2**20)",
    lambda i: "x = [0] * 10**10",
    lambda i: "import os\nos.kill(os.getppid(), 9)",
    lambda i: "import os\nos.abort()",
    lambda i: (
        "import threading, time\n[threading.Thread(target=time.sleep, args=(9,)).start() "
        "for _ in range(500)]"
    ),
    lambda i: "for i in range(10**6): open(str(i), 'w').write('x')",
]


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.soak)])
def test_adversarial_programs_leave_nothing_behind(count: int) -> None:
    level = isolation_level("best")
    run("print(1)", level)
    close_pools()
    before = held()
    isolation = "best" if level is Level.NAMESPACES else "none"

    def score(i: int) -> float:
        program = ADVERSARIES[i % len(ADVERSARIES)](i)
        response = f"```python\n{program}\n```"
        label = {"inputs": [""], "outputs": [str(i)]}
        seconds = 0.3 if i % len(ADVERSARIES) else 20.0
        return code(Case(response, label), seconds=seconds, memory=256, isolation=isolation)  # type: ignore[arg-type]

    with ThreadPoolExecutor(4) as threads:
        scores = list(threads.map(score, range(count)))
    assert scores == [float(i % len(ADVERSARIES) == 0) for i in range(count)]
    assert not left_of_programs()
    close_pools()
    assert held() == before


def held() -> tuple[int, int]:
    """Open files and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def left_of_programs() -> list[object]:
    """Processes below the pool's workers, and work folders, once they had a moment to go."""
    end = time.monotonic() + 5
    while True:
        nursery = code_pool().pid
        found: list[object] = []
        if nursery is not None:
            found += [p for p in descendants(nursery) if p.parent != nursery]
        found += Path(tempfile.gettempdir()).glob("retrain-program-*")
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.02)
