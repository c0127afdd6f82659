"""Weights & Biases for real, offline: what it will send is read back from its own file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from logged_runs import config, write_rows

from retrain.loggers.publishing import publishing

pytest.importorskip("wandb", reason='needs pip install "retrain[wandb]"')

_BLOCK, _FULL, _LAST = 32768, 1, 4
PATIENCE = 90.0


def blocks(data: bytes) -> Iterator[bytes]:
    """The records of a LevelDB log after wandb's 7 bytes (doc/log_format.md of LevelDB)."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (_FULL, _LAST):
            yield whole
            whole = b""


def records(run: Path) -> list[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    found = []
    for file in sorted(run.glob("wandb/offline-run-*/run-*.wandb")):
        for block in blocks(file.read_bytes()):
            record = Record()
            record.ParseFromString(block)
            found.append(record)
    return found


def history(run: Path, count: int) -> list[dict[str, Any]]:
    """The rows, once wandb's own process has written `count` of them."""
    until = time.monotonic() + PATIENCE
    while len(rows := written(run)) < count and time.monotonic() < until:
        time.sleep(0.05)
    return rows


def written(run: Path) -> list[dict[str, Any]]:
    rows = []
    for record in records(run):
        if record.HasField("history"):
            items = {
                (item.key or ".".join(item.nested_key)): json.loads(item.value_json)
                for item in record.history.item
            }
            rows.append({name: value for name, value in items.items() if name[0] != "_"})
    return rows


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def test_every_row_is_kept_offline_under_its_iteration(tmp_path: Path) -> None:
    run = config(tmp_path / "run", {"wandb": {"project": "demo", "mode": "offline"}})
    with publishing(run, print, resume=False):
        write_rows(tmp_path / "run", 1, 2)
    assert history(tmp_path / "run", 4) == [
        {"iteration": 1, "reward/mean": 0.1},
        {"iteration": 1, "train/loss": -1},
        {"iteration": 2, "reward/mean": 0.2},
        {"iteration": 2, "train/loss": -2},
    ]
    (begun,) = [record.run for record in records(tmp_path / "run") if record.HasField("run")][:1]
    assert (begun.project, begun.display_name) == ("demo", "logged")
    assert "s3cret" not in str(begun)


def test_a_resumed_run_goes_on_under_its_id(tmp_path: Path) -> None:
    run = config(tmp_path / "run", {"wandb": {"mode": "offline"}})
    with publishing(run, print, resume=False):
        write_rows(tmp_path / "run", 1)
    with publishing(run, print, resume=True):
        write_rows(tmp_path / "run", 2, resume=True)
    iterations = [row["iteration"] for row in history(tmp_path / "run", 4)]
    assert sorted(iterations) == [1, 1, 2, 2]
    ids = {record.run.run_id for record in records(tmp_path / "run") if record.HasField("run")}
    assert len(ids) == 1


def test_without_an_account_nobody_is_asked_and_the_rows_stay_offline(tmp_path: Path) -> None:
    notes: list[str] = []
    with publishing(config(tmp_path / "run", "wandb"), notes.append, resume=False):
        write_rows(tmp_path / "run", 1)
    assert len(notes) == 1
    assert "no account is known here: run wandb login, or set WANDB_API_KEY" in notes[0]
    assert "wandb sync" in notes[0]
    assert len(history(tmp_path / "run", 2)) == 2


def test_online_without_an_account_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    notes: list[str] = []
    run = config(tmp_path / "run", {"wandb": {"mode": "online"}})
    with publishing(run, notes.append, resume=False):
        write_rows(tmp_path / "run", 1)
    assert len(notes) == 1
    assert notes[0].startswith("logger wandb: stopped at iteration 1: no account is known")
    assert "choose loggers.wandb.mode: offline" in notes[0]


def test_a_server_that_does_not_answer_is_said_and_the_rows_stay_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    notes: list[str] = []
    with publishing(config(tmp_path / "run", "wandb"), notes.append, resume=False):
        write_rows(tmp_path / "run", 1)
    assert "cannot be reached" in notes[0]
    assert len(history(tmp_path / "run", 2)) == 2
