import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from retrain.errors import RunFolderError
from retrain.report.run_folder import RunFolder

HOLD = """
import sys, time
from retrain.report.run_folder import RunFolder
run = RunFolder.create(sys.argv[1], resume=False)
run.write_text("config.yaml", "seed: 1\\n")
print("held", flush=True)
time.sleep(60)
"""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_new_run_gets_the_folders_and_its_parents(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "runs" / "one", resume=False) as run:
        assert run.state.is_dir()
        assert run.checkpoints.is_dir()
        assert run.samples_of(3) == tmp_path / "runs" / "one" / "samples" / "3.jsonl"
        assert run.samples_of(3, split="eval").name == "eval-3.jsonl"
        assert "created" in run.events.read_text()


@pytest.mark.parametrize("mark", ["metrics.jsonl", "config.yaml"])
def test_a_folder_that_holds_a_run_is_refused_and_left_as_it_was(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).write_text("x")
    with pytest.raises(RunFolderError, match=f"{mark} is there.*output_dir.*--resume"):
        RunFolder.create(tmp_path, resume=False)
    assert names(tmp_path) == {mark}


def test_a_run_is_resumed_in_its_folder(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", resume=False) as run:
        run.write_text("config.yaml", "seed: 1\n")
    with RunFolder.create(tmp_path / "run", resume=True) as run:
        assert (run.path / "config.yaml").read_text() == "seed: 1\n"
        assert "resumed" in run.events.read_text()


@pytest.mark.parametrize("there", [True, False])
def test_resuming_nothing_is_refused_and_makes_nothing(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "run"
    if there:
        folder.mkdir()
    with pytest.raises(RunFolderError, match="holds no run to resume"):
        RunFolder.create(folder, resume=True)
    assert list(tmp_path.rglob("*")) == ([folder] if there else [])


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunFolderError, match=r"not a directory \(.*/file\).*output_dir"):
            RunFolder.create(path, resume=False)
    assert names(tmp_path) == {"file"}


def test_an_unwritable_parent_is_named_with_the_reason(ordinary_user: Path) -> None:
    ordinary_user.chmod(0o555)
    with pytest.raises(RunFolderError, match=r"a/b cannot be the output folder: Permission denied"):
        RunFolder.create(ordinary_user / "a" / "b", resume=False)
    ordinary_user.chmod(0o755)
    assert names(ordinary_user) == set()


def test_a_read_only_folder_is_refused(ordinary_user: Path) -> None:
    (ordinary_user / "config.yaml").write_text("seed: 1\n")
    ordinary_user.chmod(0o555)
    for resume in (True, False):
        with pytest.raises(RunFolderError, match=r"Permission denied \(.*\.lock\)"):
            RunFolder.create(ordinary_user, resume=resume)
    ordinary_user.chmod(0o755)


def test_nothing_half_made_stays_when_creation_fails_midway(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "checkpoints").write_text("a file where a folder must be")
    with pytest.raises(RunFolderError, match="not a directory"):
        RunFolder.create(folder, resume=False)
    assert names(folder) == {"checkpoints"}


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-c", textwrap.dedent(HOLD), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == "held\n"
            for resume in (True, False):
                with pytest.raises(RunFolderError, match=f"in use by process {first.pid} on"):
                    RunFolder.create(folder, resume=resume)
        finally:
            first.send_signal(signal.SIGKILL)
    RunFolder.create(folder, resume=True).close()


def test_a_forked_worker_does_not_keep_the_folder_locked(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, resume=False)
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.write(ready_write, b"1")
        os.close(done_write)
        os.read(done_read, 1)
        os._exit(0)
    try:
        os.read(ready_read, 1)
        with pytest.raises(RunFolderError, match="in use"):
            RunFolder.create(tmp_path, resume=False)
        run.close()
        RunFolder.create(tmp_path, resume=False).close()
    finally:
        os.close(done_write)
        os.waitpid(worker, 0)
        for descriptor in (ready_read, ready_write, done_read):
            os.close(descriptor)


def test_closing_twice_and_leaving_by_an_exception_release_the_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyError), RunFolder.create(tmp_path, resume=False) as run:
        raise KeyError("x")
    run.close()
    RunFolder.create(tmp_path, resume=False).close()


def test_text_is_replaced_in_one_step_with_usual_permissions(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, resume=False) as run:
        run.write_text("state/data.json", "old")
        path = run.write_text("state/data.json", "new é")
        assert path.read_text(encoding="utf-8") == "new é"
        mask = os.umask(0)
        os.umask(mask)
        assert path.stat().st_mode & 0o777 == 0o666 & ~mask
        assert names(run.state) == {"data.json"}


def test_a_failed_write_keeps_the_old_text_and_leaves_no_rest(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, resume=False) as run:
        (run.path / "plan.json").mkdir()
        with pytest.raises(RunFolderError, match=r"plan\.json: cannot be written"):
            run.write_text("plan.json", "{}")
        assert not list(run.path.glob("*.tmp")) + list(run.path.glob(".*.tmp"))


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", ""])
def test_text_cannot_be_written_outside(tmp_path: Path, name: str) -> None:
    with (
        RunFolder.create(tmp_path / "run", resume=False) as run,
        pytest.raises(ValueError, match="not a path inside"),
    ):
        run.write_text(name, "x")


def test_an_event_is_one_line_whatever_it_says(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, resume=False) as run:
        run.log_event("two\nlines \x1b[2J")
        assert run.events.read_text().splitlines()[-1].endswith(r"two\nlines \x1b[2J")
