"""`benchmarks/concurrency.py`: it runs without the peer, and counts every turn of both."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = ["--episodes", "3", "--turns", "2", "--tokens", "8", "--engine", "0", "--environment", "0"]
ALONE = [*SMALL, "--url", ""]


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import concurrent_side

    yield concurrent_side
    for name in ("concurrent_side", "concurrency", "bridge_overhead", "prepared_episode"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def folder(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved = tmp_path_factory.mktemp("qwen")
    tokenizer.save_pretrained(saved)
    return saved


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    script = str(BENCHMARKS / "concurrency.py")
    command = [sys.executable, script, *SMALL, "--repeats", "1", "--tokenizer", str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=250)


def test_without_the_peer_it_says_so(folder: Path) -> None:
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"retrain: \d+ \(.*\) us of CPU time per turn, \d+ MiB at most", done.stdout)
    assert "no ratio: name a Python that has verifiers" in done.stdout


def test_over_a_server_every_turn_is_asked_for(folder: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'retrain[dev]'")
    done = run(folder, "--server")
    assert done.returncode == 0, done.stderr
    assert re.search(r"retrain: \d+ \(.*\) us of CPU time per turn", done.stdout)


def test_what_the_peer_is_told_is_what_a_server_tells_it(side: Any) -> None:
    prompt = side.prompt_tokens(3, 8)
    told = side.completion(prompt, 8)
    (choice,) = told["choices"]
    assert prompt == side.PROMPT_TOKENS + 8 + side.REPLY_TOKENS == len(told["prompt_token_ids"])
    assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) == 8


def test_a_peer_that_fails_is_named_with_what_it_wrote(side: Any, tmp_path: Path) -> None:
    import concurrency

    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho there is none >&2\nexit 3\n")
    python.chmod(0o755)
    args = argparse.Namespace(
        episodes=3, turns=2, tokens=8, engine=0.0, environment=0.0, tokenizer=None
    )
    with pytest.raises(SystemExit, match=r"(?s)concurrent_verifiers.py failed under .*is none"):
        concurrency.play(str(python), "concurrent_verifiers.py", args, "")


def test_what_the_engine_computes_is_left_out(side: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10**6, 10))
    monkeypatch.setattr("time.process_time_ns", lambda: next(now))
    work = side.Work(1, 1, 8, 0.0, 0.0, "")
    assert asyncio.run(work.answer(lambda prompt: prompt + 1, 41)) == 42
    assert work.meter.spent == 10


@pytest.mark.parametrize("missing", [0, 1])
def test_a_turn_that_is_missing_ends_the_run(
    side: Any, missing: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def players(work: Any) -> AsyncIterator[Any]:
        async def play(number: int) -> list[int]:
            turns = work.turns - missing * (number == 2)
            return [await work.answer(lambda prompt: prompt, 1) for _ in range(turns)]

        yield play

    def count(done: Any) -> int:
        return sum(map(len, done))

    monkeypatch.setattr(sys, "argv", ["side", *ALONE])
    if missing:
        with pytest.raises(AssertionError, match="a turn is missing"):
            side.measure(players, count)
        return
    side.measure(players, count)
    row = json.loads(capsys.readouterr().out)
    assert row["us_per_turn"] > 0 and row["peak_bytes"] >= 0
