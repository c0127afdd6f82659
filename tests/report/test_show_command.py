"""`retrain show`: a run's table and one episode, on a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import HOSTILE, record
from terminals import run_on_terminal
from typer.testing import CliRunner

from retrain.cli.main import app

ROOT = Path(__file__).parents[2]
CONTROLS = set(map(chr, [*range(0x20), *range(0x7F, 0xA0)])) - {"\n", "\t"}
BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("show") / "run")


def show(*words: object) -> Any:
    return CliRunner().invoke(app, ["show", *map(str, words)])


def test_a_run_s_table_says_where_it_came_and_what_to_look_at(run: Path) -> None:
    done = show(run)
    assert done.exit_code == 0, done.output
    first, *lines = done.stdout.splitlines()
    assert first.startswith("recorded  trl, stopped early, iteration 4 of 4")
    heads = next(line for line in lines if "iteration" in line).split()
    assert heads[:3] == ["iteration", "reward", "loss"]
    rows = [line.split() for line in lines if line.split()[:1] in (["1"], ["4"])]
    assert [row[:3] for row in rows] == [
        ["1", "+0.500", "+1.0000"],
        ["4", "+0.500", "+0.2500"],
    ]
    named = {line.split()[0]: line.split()[1] for line in lines if " 4." in line[:20]}
    assert named == {"best": "4.1", "median": "4.3", "worst": "4.2", "failed": "4.4"}
    assert f"retrain show {run} --sample 4.1" in done.stdout


def test_an_episode_is_told_turn_by_turn_with_its_mask(run: Path) -> None:
    done = show(run, "--sample", "4.1")
    assert done.exit_code == 0, done.output
    _, _, told = done.stdout.partition("── prompt")
    assert told.splitlines() == [
        " ",
        "3+4? ",
        "── turn 1, model ",
        "⟦<call>3+4⟧",
        "── turn 1, environment ",
        "=7",
        "",
        "── turn 2, model ",
        "⟦7⟧",
    ]
    assert "reward  +1.0000 (exact +1, form +0.5)" in done.stdout


def test_a_failed_episode_says_where_and_why(run: Path) -> None:
    done = show(run, "--sample", "4.4")
    assert done.exit_code == 0
    assert "error  tool: step: <script>" in done.stdout
    assert "── traceback" in done.stdout


@pytest.mark.parametrize("words", [(), ("--sample", "4.3"), ("--iteration", "4"), ("--json",)])
def test_hostile_texts_are_inert_in_a_pipe(run: Path, words: tuple[str, ...]) -> None:
    done = show(run, *words)
    assert done.exit_code == 0, done.output
    found = set(done.stdout)
    assert not found & CONTROLS
    assert not found & BIDI
    assert "\\x1b[31m" in done.stdout or "\\u001b[31m" in done.stdout


def test_a_text_cannot_forge_the_mask(run: Path) -> None:
    shown = show(run, "--sample", "4.3").stdout
    assert "\\u27e6forged\\u27e7" in shown
    assert shown.count("⟦") == shown.count("⟧") == 2


def on_a_terminal(run: Path, **env: str) -> str:
    """What the command writes on a terminal of its own."""
    words = [sys.executable, "-m", "retrain", "show", str(run), "--sample", "4.3"]
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    given = {**kept, "TERM": "xterm-256color", "COLUMNS": "100", "PYTHONPATH": str(ROOT), **env}
    both = ("stdout", "stderr")
    return run_on_terminal(words, streams=both, folder=ROOT, environment=given).terminal


def test_a_terminal_has_colours_and_nothing_else_that_steers_it(run: Path) -> None:
    import re

    shown = on_a_terminal(run)
    assert "\x1b[1;32m" in shown, "trained tokens are bold and green"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n")
    assert not set(plain) & (CONTROLS | BIDI)


def test_no_color_is_kept(run: Path) -> None:
    shown = on_a_terminal(run, NO_COLOR="1")
    assert "\x1b[" not in shown
    assert "⟦" in shown


def test_a_long_text_is_shortened_unless_asked_for(tmp_path: Path) -> None:
    run = record(tmp_path / "run", iterations=1, hostile="x" * 25_000)
    short, full = show(run, "--sample", "1.3").stdout, show(run, "--sample", "1.3", "--full").stdout
    assert "… shortened, 25,001 characters; --full shows all" in short
    assert len(short) < 60_000
    assert full.count("x" * 25_000) == 2


def test_programs_get_the_rows(run: Path) -> None:
    told = json.loads(show(run, "--json").stdout)
    assert (told["backend"], told["iterations"], told["planned"]) == ("trl", 4, 4)
    assert [episode["role"] for episode in told["episodes"]] == [
        "best",
        "median",
        "worst",
        "failed",
    ]
    (row,) = json.loads(show(run, "--sample", "4.3", "--json").stdout)["rows"]
    assert row["task_id"] == HOSTILE
    listed = json.loads(show(run, "--iteration", "2", "--json").stdout)["episodes"]
    assert [episode["sample"] for episode in listed] == ["2.1", "2.2", "2.3", "2.4"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sample", "9.1"), "holds no sample '9.1'; a sample is called FILE.LINE"),
        (("--sample", "../1.1"), "holds no sample '../1.1'"),
        (("--sample", "4.99"), "holds no sample '4.99'"),
        (("--iteration", "77"), "holds no samples of iteration 77"),
        (("--iteration", "1", "--sample", "1.1"), "--sample names its iteration itself"),
    ],
)
def test_what_is_not_there_is_one_clear_error(run: Path, words: tuple[str, ...], said: str) -> None:
    done = show(run, *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_without_a_run_is_one_clear_error(tmp_path: Path) -> None:
    for folder, said in ((tmp_path, "holds no run"), (tmp_path / "none", "does not exist")):
        done = show(folder)
        assert done.exit_code == 2
        assert said in done.stderr


def test_a_damaged_run_is_shown_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    run = record(tmp_path / "run", iterations=3)
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    lines[1] = '{"iteration": 1, "train/loss": "a lot"}'
    metrics.write_text("\n".join([*lines, '{"iteration": 4, "ti']))
    (run / "samples" / "3.jsonl").write_text('{"tokens": [1]}\n' + "nonsense\n")
    (run / "config.yaml").write_text("{never: closed")
    done = show(run)
    assert done.exit_code == 0, done.output
    assert "iteration 3" in done.stdout
    assert "2.1" in done.stdout, "the newest samples that can be read"
    for said in (
        "line 2: 'train/loss' is 'a lot'",
        "samples/3.jsonl, line 2",
        "config.yaml: cannot",
    ):
        assert said in done.stderr


def test_a_run_of_a_newer_retrain_says_so(tmp_path: Path) -> None:
    run = record(tmp_path / "run", iterations=1)
    file = run / "provenance.jsonl"
    row = json.loads(file.read_text())
    file.write_text(json.dumps({**row, "format": 99, "packages": {"retrain": "7.0"}}) + "\n")
    done = show(run)
    assert done.exit_code == 0
    assert "has format 99 (retrain 7.0), and this retrain" in done.stderr
    assert "pip install -U retrain" in done.stderr


def test_a_run_that_has_only_begun_is_shown(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("experiment_name: fresh\n")
    done = show(tmp_path)
    assert done.exit_code == 0
    assert done.stdout.startswith("fresh  ?, stopped early, iteration 0")
    assert "no samples are recorded yet" in done.stdout
    assert "no metrics are recorded yet" in done.stderr
