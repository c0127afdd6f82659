"""`RunIndex`: one summary per episode of a run, kept up to date while the run goes on.

A summary is some hundred bytes whatever the length of the episode; tokens and texts stay in the
files until somebody asks for one episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from retrain.errors import DataError
from retrain.report.run_folder import SAMPLES
from retrain.view.groups import GroupSummary
from retrain.view.scan import SamplesFile, SamplesName, samples_name, scan
from retrain.view.summary import EpisodeSummary

_Stamp = tuple[int, int, int]


@dataclass(slots=True)
class _Known:
    stamp: _Stamp
    file: SamplesFile


@dataclass(frozen=True, slots=True)
class IndexState:
    """How far an index is.

    Attributes:
        version: Rises with every change.
        read: Files that were read.
        files: Files that there are.
        episodes: Episodes known so far.
    """

    version: int
    read: int
    files: int
    episodes: int

    @property
    def complete(self) -> bool:
        """Whether every file was read."""
        return self.read == self.files


@dataclass(slots=True)
class RunIndex:
    """The episodes of one run folder.

    `refresh` is called from one thread; everything else may be called from any, at any time.

    Attributes:
        folder: The run folder.
    """

    folder: Path
    _known: dict[str, _Known] = field(default_factory=dict)
    _files: int = 0
    _version: int = 0
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def read(cls, folder: Path) -> RunIndex:
        """An index that has read every file."""
        index = cls(folder)
        for _ in index.refresh():
            pass
        return index

    def refresh(self) -> Iterator[SamplesFile]:
        """Read what is new or was replaced, the newest iteration first, and forget what is gone.

        Yields:
            Each file once it was read, so that the caller decides when to go on.
        """
        present = _present(self.folder / SAMPLES)
        with self._lock:
            gone = self._known.keys() - {name.stem for name in present}
            for stem in gone:
                del self._known[stem]
            self._version += bool(gone)
            self._files = len(present)
        for name in sorted(present, key=lambda name: name.order, reverse=True):
            path, stamp = present[name]
            known = self._known.get(name.stem)
            if known is None or known.stamp != stamp:
                yield self._scan(path, name, stamp)

    def _scan(self, path: Path, name: SamplesName, stamp: _Stamp) -> SamplesFile:
        file = scan(path, name)
        with self._lock:
            self._known[name.stem] = _Known(stamp, file)
            self._version += 1
        return file

    def file(self, stem: str) -> SamplesFile | None:
        """One samples file, read now where `refresh` has not come to it; None where it is none."""
        with self._lock:
            known = self._known.get(stem)
        if known is not None:
            return known.file
        path = self.folder / SAMPLES / f"{stem}.jsonl"
        name = samples_name(path)
        if name is None or name.stem != stem or (stamp := _stamp(path)) is None:
            return None
        return self._scan(path, name, stamp)

    @property
    def state(self) -> IndexState:
        """How far it is."""
        with self._lock:
            files = [known.file for known in self._known.values()]
            version, total = self._version, self._files
        episodes = sum(len(group.episodes) for file in files for group in file.groups)
        return IndexState(version, len(files), total, episodes)

    @property
    def files(self) -> Sequence[SamplesFile]:
        """The files read so far, in the order of the run."""
        with self._lock:
            files = [known.file for known in self._known.values()]
        return sorted(files, key=lambda file: file.name.order)

    @property
    def episodes(self) -> Iterator[EpisodeSummary]:
        """The episodes known so far, in the order of the run."""
        return (episode for file in self.files for episode in file.episodes)

    @property
    def problems(self) -> list[str]:
        """What could not be read, with file and line."""
        return [problem for file in self.files for problem in file.problems]

    def find(self, id: str) -> tuple[SamplesFile, GroupSummary, EpisodeSummary]:
        """One episode, with its group and file.

        Args:
            id: FILE.LINE, such as "12.3".

        Raises:
            DataError: There is none.
        """
        file = self.file(id.rpartition(".")[0])
        if file is not None:
            for group in file.groups:
                for episode in group.episodes:
                    if episode.id == id:
                        return file, group, episode
        raise DataError(
            f"{self.folder}: holds no sample {id!r:.80}; a sample is called FILE.LINE, such as "
            '"12.3" for line 3 of samples/12.jsonl'
        )


def _present(folder: Path) -> Mapping[SamplesName, tuple[Path, _Stamp]]:
    found: dict[SamplesName, tuple[Path, _Stamp]] = {}
    try:
        paths = list(folder.iterdir())
    except OSError:
        return found
    for path in paths:
        name = samples_name(path)
        if name is not None and (stamp := _stamp(path)) is not None:
            found[name] = path, stamp
    return found


def _stamp(path: Path) -> _Stamp | None:
    """What changes when a file is replaced; None where it is gone or is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if path.is_file() else None
