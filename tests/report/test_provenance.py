"""`provenance.jsonl`: who began a run, with which command, versions and machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from retrain import __version__
from retrain.errors import DataError
from retrain.report.provenance import PROVENANCE, read_beginnings
from retrain.report.run_folder import RunFolder


def test_a_run_and_every_resume_leave_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/retrain", "train", "c.yaml"])
    with RunFolder.create(tmp_path / "run", resume=False) as run:
        run.write_text("config.yaml", "{}")
    monkeypatch.setattr(sys, "argv", ["/usr/bin/retrain", "train", "c.yaml", "--resume"])
    with RunFolder.create(tmp_path / "run", resume=True):
        pass
    first, second = read_beginnings(tmp_path / "run")
    assert first.command == ("retrain", "train", "c.yaml")
    assert second.command[-1] == "--resume"
    assert second.time >= first.time
    assert first.packages["retrain"] == __version__
    assert first.packages["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "pydantic" in first.packages and "threads" in first.machine
    assert first.folder == str(Path.cwd())


def test_credentials_on_the_command_line_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "hf_0123456789abcdefgh"
    words = ["retrain", "--set", "environment.env_specific_config.api_key=s3cret", "--x", secret]
    monkeypatch.setattr(sys, "argv", words)
    with RunFolder.create(tmp_path / "run", resume=False):
        pass
    text = (tmp_path / "run" / PROVENANCE).read_text()
    assert "s3cret" not in text and secret not in text
    assert "api_key=<redacted>" in text


def test_credentials_within_a_value_and_behind_an_equals_sign_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        "retrain",
        "--set=judge.api_key=s3cret",
        "--set",
        "a.servers=[{url: 'http://x', headers: {Authorization: s3cret}, 1: kept}]",
        "--set=b.api_key={s3cret: 1",
        "--set=seed=[1, {2: 3}]",
    ]
    monkeypatch.setattr(sys, "argv", words)
    with RunFolder.create(tmp_path / "run", resume=False):
        pass
    (beginning,) = read_beginnings(tmp_path / "run")
    assert "s3cret" not in str(beginning.command)
    assert beginning.command[1] == "--set=judge.api_key=<redacted>"
    assert '"url": "http://x"' in beginning.command[3] and '"kept"' in beginning.command[3]
    assert beginning.command[-1] == words[-1]


def test_a_folder_that_cannot_be_taken_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "run" / "samples").mkdir(parents=True)
    (tmp_path / "run" / "samples").chmod(0o755)
    (tmp_path / "run" / "events.log").mkdir()
    with pytest.raises(OSError):
        RunFolder.create(tmp_path / "run", resume=False)
    assert not (tmp_path / "run" / PROVENANCE).exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"format": 2, "packages": {"retrain": "9.1"}}, "has format 2 (retrain 9.1)"),
        ({"time": 1}, "has format None (retrain ?)"),
        ([1], "expected a JSON object"),
    ],
)
def test_a_line_of_another_format_is_refused(tmp_path: Path, line: object, said: str) -> None:
    (tmp_path / PROVENANCE).write_text(json.dumps(line) + "\n")
    with pytest.raises(DataError) as raised:
        read_beginnings(tmp_path)
    assert said in str(raised.value) and "line 1" in str(raised.value)


def test_a_run_of_an_older_retrain_has_none(tmp_path: Path) -> None:
    assert read_beginnings(tmp_path) == []
