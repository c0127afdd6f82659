"""Every logger gets every row once, whatever the others do, and none can end the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from logged_runs import Exploding, FullDisk, Remembering, Stuck, config, write_rows

from retrain.loggers import publishing as module
from retrain.loggers.publishing import publishing, require_loggers


def path_of(kind: type) -> str:
    return f"logged_runs:{kind.__name__}"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    Remembering.made = []
    Stuck.released.clear()
    yield
    Stuck.released.set()


def test_a_logger_gets_every_row_in_order_and_what_it_needs_to_know(tmp_path: Path) -> None:
    run = config(tmp_path / "run", {"custom": {path_of(Remembering): {"colour": "blue"}}})
    with publishing(run, print, resume=False):
        write_rows(tmp_path / "run", 1, 2)
    (logger,) = Remembering.made
    assert [(row.iteration, *row.values) for row in logger.rows] == [
        (1, "reward/mean", "success"),
        (1, "train/loss"),
        (2, "reward/mean", "success"),
        (2, "train/loss"),
    ]
    assert logger.rows[0].values["success"] is None
    assert logger.settings == {"colour": "blue"}
    assert logger.ended_well is True
    assert logger.thread != "MainThread"
    assert (logger.run.name, logger.run.path) == ("logged", tmp_path / "run")
    assert "s3cret" not in str(logger.run.config)
    assert logger.run.config["algorithm"]["backend"] == "trl"


def test_a_run_that_fails_is_logged_to_its_end_as_failed(tmp_path: Path) -> None:
    run = config(tmp_path / "run", path_of(Remembering))
    with pytest.raises(RuntimeError), publishing(run, print, resume=False):
        write_rows(tmp_path / "run", 1)
        raise RuntimeError("out of memory")
    (logger,) = Remembering.made
    assert len(logger.rows) == 2
    assert logger.ended_well is False


def test_a_resumed_run_is_the_same_run_and_logs_no_row_twice(tmp_path: Path) -> None:
    run = config(tmp_path / "run", path_of(Remembering))
    with publishing(run, print, resume=False):
        write_rows(tmp_path / "run", 1, 2, 3)
    with publishing(run, print, resume=True):
        write_rows(tmp_path / "run", 3, 4, resume=True)
    first, second = Remembering.made
    assert second.run.id == first.run.id
    assert [row.iteration for row in second.run.earlier] == [1, 1, 2, 2]
    assert [row.iteration for row in second.rows] == [3, 3, 4, 4]
    assert (first.run.resumed, second.run.resumed) == (False, True)


def test_a_logger_that_a_resume_adds_is_told_that_it_is_new(tmp_path: Path) -> None:
    with publishing(config(tmp_path / "run", path_of(FullDisk)), print, resume=False):
        write_rows(tmp_path / "run", 1)
    both = config(tmp_path / "run", [path_of(FullDisk), path_of(Remembering)])
    with publishing(both, print, resume=True):
        write_rows(tmp_path / "run", 2, resume=True)
    added = next(logger for logger in Remembering.made if type(logger) is Remembering)
    again = [logger for logger in Remembering.made if type(logger) is FullDisk][-1]
    assert (added.run.resumed, again.run.resumed) == (False, True)
    assert added.run.id == again.run.id
    assert [row.iteration for row in added.run.earlier] == [1, 1]


def test_another_run_in_the_folder_of_a_removed_one_is_another_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with publishing(config(tmp_path / name, path_of(Remembering)), print, resume=False):
            write_rows(tmp_path / name, 1)
    first, second = Remembering.made
    assert first.run.id != second.run.id


def test_rows_that_another_run_left_are_not_logged(tmp_path: Path) -> None:
    write_rows(tmp_path / "run", 1, 2)
    with publishing(config(tmp_path / "run", path_of(Remembering)), print, resume=False):
        pass
    assert Remembering.made == []


def test_a_logger_that_fails_is_named_once_and_the_others_go_on(tmp_path: Path) -> None:
    notes: list[str] = []
    names = [path_of(kind) for kind in (FullDisk, Exploding, Remembering)]
    with publishing(config(tmp_path / "run", names), notes.append, resume=False):
        write_rows(tmp_path / "run", 1, 2, 3)
    whole = next(logger for logger in Remembering.made if type(logger) is Remembering)
    assert len(whole.rows) == 6
    assert sorted(notes) == [
        "logger logged_runs:Exploding: stopped at iteration 1: KeyError: "
        "'no such project'; the run goes on, and metrics.jsonl has every row",
        "logger logged_runs:FullDisk: stopped at iteration 1: OSError: "
        "[Errno 28] No space left on device; the run goes on, and metrics.jsonl has every row",
    ]


def test_a_logger_that_hangs_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSING_SECONDS", 0.1)
    notes: list[str] = []
    with publishing(config(tmp_path / "run", path_of(Stuck)), notes.append, resume=False):
        write_rows(tmp_path / "run", 1)
    assert len(notes) == 1
    assert "has not ended in time" in notes[0]


def test_a_row_in_writing_waits_for_its_end(tmp_path: Path) -> None:
    from retrain.loggers.new_rows import NewRows

    path = tmp_path / "metrics.jsonl"
    rows = NewRows(path)
    assert rows.take() == []
    with path.open("w") as file:
        file.write('{"iteration": 1, "time": 0, "success": 1}\n{"iteration": 2, "ti')
        file.flush()
        assert [row.iteration for row in rows.take()] == [1]
        file.write('me": 0}\n')
    assert [row.iteration for row in rows.take()] == [2]
    assert rows.take() == []


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_a_missing_package_gives_the_pip_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from retrain.errors import MissingDependency

    monkeypatch.setattr("retrain.loggers.registry.package_folders", lambda package: [])
    with pytest.raises(MissingDependency) as raised:
        require_loggers(config(tmp_path / "run", name))
    assert str(raised.value) == (
        f"loggers.{name}: the logger needs {name}, which is not installed: "
        f'pip install "retrain[{name}]"'
    )
    assert not (tmp_path / "run").exists()


def test_a_logger_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    from retrain.errors import ConfigError

    with pytest.raises(ConfigError, match=r"loggers\.custom: .*no module named 'nowhere'"):
        require_loggers(config(tmp_path / "run", "nowhere:Logger"))


def test_a_failed_logger_stands_in_the_events_of_the_run(tmp_path: Path) -> None:
    with publishing(config(tmp_path / "run", path_of(Exploding)), print, resume=False):
        write_rows(tmp_path / "run", 1)
    events = (tmp_path / "run" / "events.log").read_text()
    assert "logger logged_runs:Exploding: stopped at iteration 1: KeyError" in events
