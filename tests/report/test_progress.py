import io
import os
import subprocess
import sys

from terminals import run_on_terminal

from retrain.report.progress import Pace, PlainProgress, duration, headline, make_progress

DRIVE = """
from retrain.report.progress import make_progress
progress = make_progress()
progress.start(3, "calc [red]")
print("data")
for i in (1, 2, 3):
    speed = {"rollout/tokens_per_second": 1234.5}
    progress.update(i, {"reward/mean": 0.25 * i, "success": 0.5, **speed})
    progress.note("note \\x1b[31m [bold]")
progress.stop()
progress.stop()
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pipe_gets_one_plain_line_per_iteration() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock=clock)
    progress.start(10, "calc\x1b[2J", completed=4)
    clock.now = 60.0
    progress.update(5, {"reward/mean": 0.25, "success": 0.5, "rollout/tokens_per_second": 1234.5})
    progress.note("two\nlines")
    progress.stop()
    assert stream.getvalue().splitlines() == [
        r"calc\x1b[2J: 10 iterations, 4 done before",
        "iteration  5/10  reward +0.250  success 0.50  tokens/s 1,234  left 5 min 00 s",
        r"two\nlines",
    ]


def test_a_held_out_reward_is_shown_where_no_success_is_reported() -> None:
    assert headline({"eval/reward/mean": 0.5}) == {"held-out reward": "+0.500"}
    assert headline({"eval/reward/mean": 0.5, "eval/success": 0.25}) == {"held-out": "0.25"}


def test_a_process_without_a_terminal_writes_no_control_characters() -> None:
    done = subprocess.run([sys.executable, "-c", DRIVE], capture_output=True, check=True)
    text = done.stderr.decode()
    assert done.stdout == b"data\n"
    assert len(text.splitlines()) == 1 + 3 + 3
    assert all(char == "\n" or char.isprintable() for char in text)


def test_a_stream_that_cannot_encode_gets_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    progress = PlainProgress(stream)
    progress.note("é ⟦")
    assert raw.getvalue() == b"\\xe9 \\u27e6\n"


def driven_on(terminal: str) -> str:
    environment = {**os.environ, "TERM": terminal, "COLUMNS": "80"}
    command = [sys.executable, "-c", DRIVE]
    done = run_on_terminal(command, streams=("stderr",), environment=environment)
    assert (done.code, done.piped) == (0, "data\n")
    return done.terminal


def test_a_terminal_gets_a_bar_and_its_cursor_back() -> None:
    text = driven_on("xterm-256color")
    assert "calc [red]" in text
    assert "reward +0.750  success 0.50  tokens/s 1,234" in text
    assert "3/3" in text
    assert r"note \x1b[31m [bold]" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines() -> None:
    text = driven_on("dumb")
    assert "\x1b" not in text
    assert "iteration 3/3" in text


def test_the_time_left_counts_from_where_a_resumed_run_began() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.start(100, 90)
    assert pace.seconds_left(90) is None
    clock.now = 20.0
    assert pace.seconds_left(92) == 80.0
    assert pace.seconds_left(101) == 0.0


def test_durations_read_as_people_say_them() -> None:
    assert [duration(s) for s in (None, 0.4, 59.6, 185, 7620)] == [
        "?", "0 s", "1 min 00 s", "3 min 05 s", "2 h 07 min",
    ]  # fmt: skip


def test_a_stream_that_is_no_terminal_gets_plain_progress() -> None:
    assert isinstance(make_progress(io.StringIO()), PlainProgress)


def test_long_runs_write_about_fifty_lines_and_every_evaluation() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream, clock=lambda: 0.0)
    progress.start(500, "long")
    for iteration in range(1, 501):
        progress.update(iteration, {"reward/mean": 0.0})
    progress.update(33, {"eval/success": 0.5})
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1 + 50 + 1
    assert lines[-2].startswith("iteration 500/500")
    assert lines[-1].startswith("iteration  33/500  held-out 0.50")
