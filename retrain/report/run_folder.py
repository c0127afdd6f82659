"""The run folder: where a run keeps everything it leaves behind.

config.yaml              the resolved configuration, credentials redacted
plan.json                what the framework received
metrics.jsonl            one row per iteration and source; append-only, the source of truth
samples/ITERATION.jsonl  the samples of an iteration; eval-ITERATION.jsonl those of an evaluation
trainer_logprobs/ITERATION.jsonl  what the trainer says of their tokens; trl, torch
state/                   result.json, once the run has ended
checkpoints/             weights and optimizer, made by the backend
superseded/NUMBER/       what a resume moved aside, because it came after the checkpoint
provenance.jsonl         who began it, with which command and versions; a line more for each resume
curve.png, report.html, events.log
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath

from retrain.closing import Closing
from retrain.errors import RunFolderError
from retrain.report.atomic import replace_bytes
from retrain.report.folder_lock import FolderLock
from retrain.report.folder_tree import make_folders, unmake
from retrain.report.provenance import PROVENANCE, add_beginning
from retrain.report.rewind import move_aside
from retrain.report.terminal import one_line
from retrain.report.trainer_logprobs import TRAINER_LOGPROBS

CONFIG = "config.yaml"
PLAN = "plan.json"
METRICS = "metrics.jsonl"
SAMPLES = "samples"
STATE = "state"
CHECKPOINTS = "checkpoints"
CURVE = "curve.png"
REPORT = "report.html"
EVENTS = "events.log"
PARTS = (SAMPLES, STATE, CHECKPOINTS)
_LOCK = ".lock"
_RUN_MARKS = (METRICS, CONFIG)


class RunFolder(Closing):
    """A run's folder, held by this process alone until `close`. Make it with `create`."""

    def __init__(self, path: Path, lock: FolderLock) -> None:
        """Wrap a prepared folder; `create` is the way in."""
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, path: str | Path, *, resume: bool, parts: Sequence[str] = PARTS) -> RunFolder:
        """Make the folder of a new run, or take over that of an old one.

        Whatever fails, the disk is left as it was.

        Args:
            path: The folder (`output_dir`); its parents are made as needed.
            resume: The folder must hold a run, which goes on; otherwise it must hold none.
            parts: The folders to make in it; a run of stages needs none of its own.

        Raises:
            RunFolderError: It holds a run and `resume` is False, it holds none and `resume` is
                True, another process uses it, or it cannot be written.
        """
        folder = Path(os.path.expanduser(path)).absolute()
        if resume and not _run_mark(folder):
            raise RunFolderError(
                f"{path} holds no run to resume (no {' or '.join(_RUN_MARKS)}); "
                f"check output_dir, or leave out --resume to start a new run"
            )
        made: list[Path] = []
        try:
            return cls._prepare(folder, resume, made, parts)
        except OSError as error:
            unmake(made)
            if isinstance(error, RunFolderError):
                raise
            reason = error.strerror or str(error)
            raise RunFolderError(
                f"{path} cannot be the output folder: {reason} ({error.filename}); "
                f"choose another output_dir"
            ) from error

    @classmethod
    def _prepare(
        cls, folder: Path, resume: bool, made: list[Path], parts: Sequence[str]
    ) -> RunFolder:
        make_folders(folder, made)
        lock = FolderLock(folder / _LOCK)
        try:
            mark = _run_mark(folder)
            if mark and not resume:
                raise RunFolderError(
                    f"{folder} already holds a run ({mark} is there); "
                    f"choose another output_dir, or pass --resume to go on with it"
                )
            for name in parts:
                make_folders(folder / name, made)
            run = cls(folder, lock)
            if not run.events.exists():
                made.append(run.events)
            if not (folder / PROVENANCE).exists():
                made.append(folder / PROVENANCE)
            add_beginning(folder)
            run.log_event("resumed" if resume else "created")
            if not lock.supported:
                run.log_event("the file system knows no locks: a second process is not kept out")
        except BaseException:
            lock.release(remove=lock.made_file)
            raise
        return run

    @property
    def metrics(self) -> Path:
        """The metrics file; it exists once the first row is written."""
        return self.path / METRICS

    @property
    def samples(self) -> Path:
        """The folder of the samples."""
        return self.path / SAMPLES

    @property
    def state(self) -> Path:
        """The folder of the data state."""
        return self.path / STATE

    @property
    def checkpoints(self) -> Path:
        """The folder of the backend's checkpoints."""
        return self.path / CHECKPOINTS

    @property
    def curve(self) -> Path:
        """The learning curve's picture."""
        return self.path / CURVE

    @property
    def events(self) -> Path:
        """The log of events."""
        return self.path / EVENTS

    def samples_of(self, iteration: int, *, split: str = "train") -> Path:
        """The samples file of an iteration.

        Args:
            iteration: The iteration; 0 is before training.
            split: "train", or the evaluation's name.
        """
        name = f"{iteration}.jsonl" if split == "train" else f"{split}-{iteration}.jsonl"
        return self.samples / name

    def write_text(self, name: str, text: str) -> Path:
        """Put a text file in the folder, in one step: readers see the old text or the new one.

        Args:
            name: Its path inside the folder, such as "config.yaml" or "state/data.json".
            text: Its content, written as UTF-8.

        Returns:
            Its path.

        Raises:
            ValueError: `name` leads out of the folder.
            RunFolderError: It cannot be written.
        """
        relative = PurePath(name)
        if relative.is_absolute() or ".." in relative.parts or not relative.name:
            raise ValueError(f"{name!r} is not a path inside the run folder")
        target = self.path / relative
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_bytes(target, text.encode())
        except OSError as error:
            raise RunFolderError(f"{target}: cannot be written: {error.strerror}") from error
        return target

    def log_event(self, text: str) -> None:
        """Append one line to events.log: the time in UTC and `text`, control characters escaped.

        Raises:
            RunFolderError: It cannot be written.
        """
        append_event(self.path, text)

    def rewind(self, iteration: int) -> Path | None:
        """Go back to a checkpoint: what was recorded after it moves aside, and nothing is lost.

        Call it on resume, before the metrics file is opened, so that the rows that remain all
        belong to the weights that training goes on from.

        Args:
            iteration: The checkpoint's iteration; 0 begins again from the first one.

        Returns:
            The folder under superseded/ that holds what moved; None where nothing did.

        Raises:
            DataError: metrics.jsonl holds a line that is no metrics row.
            RunFolderError: The folder cannot be written.
        """
        aside = move_aside(self.path, METRICS, (SAMPLES, TRAINER_LOGPROBS), iteration)
        if aside is not None:
            self.log_event(f"moved what followed iteration {iteration} to {aside.name}")
        return aside

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.release()


def append_event(run_dir: Path, text: str) -> None:
    """Append one line to a run's events.log, as `RunFolder.log_event` does, without its lock.

    Raises:
        RunFolderError: It cannot be written.
    """
    events = run_dir / EVENTS
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with events.open("a", encoding="utf-8") as file:
            file.write(f"{moment} {one_line(text)}\n")
    except OSError as error:
        raise RunFolderError(f"{events}: cannot be written: {error.strerror}") from error


def _run_mark(folder: Path) -> str | None:
    return next((name for name in _RUN_MARKS if os.path.lexists(folder / name)), None)
