"""`type: dataset`: tasks of a Hugging Face dataset, from the Hub or from files on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrain.errors import ConfigError, DataError, MissingDependency, nearest
from retrain.rollout.sources_columns import choose_columns
from retrain.rollout.sources_rows import SECTION, RowKeys, distinct, row_task
from retrain.types import Task

_READERS = {
    ".parquet": ("parquet", {}),
    ".arrow": ("arrow", {}),
    ".json": ("json", {}),
    ".jsonl": ("json", {}),
    ".csv": ("csv", {}),
    ".tsv": ("csv", {"sep": "\t"}),
}
"""A file's suffix to the reader of `datasets`, and its options."""

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_FORMATS = ", ".join(suffix.removeprefix(".") for suffix in _READERS)


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """Which rows of which dataset.

    Attributes:
        path: A dataset on the Hugging Face Hub ("openai/gsm8k"), or a file or folder here.
        name: Its configuration ("main"), where it has several.
        split: Its split, or a part of one ("train[:10%]").
        revision: Branch, tag or commit on the Hub.
        columns: The columns that become metadata; None keeps all.
        limit: How many rows, from the first one on; None takes all.
    """

    path: str
    name: str | None = None
    split: str = "train"
    revision: str | None = None
    columns: Sequence[str] | None = None
    limit: int | None = None


def dataset_tasks(source: DatasetSource, keys: RowKeys, base_dir: Path) -> tuple[Task, ...]:
    """Read tasks from a dataset. It is read whole, never streamed, so that it can be shuffled.

    What was downloaded once is found again in the cache of `datasets`, without a connection too.

    Args:
        source: Which rows.
        keys: Which column holds what.
        base_dir: What a relative path is relative to.

    Raises:
        ConfigError: There is no such configuration, split or column, or the limit takes no row.
        DataError: There is no such dataset, it cannot be reached or read, or a row cannot be used.
        MissingDependency: The package `datasets` is not installed.
    """
    if source.limit is not None and source.limit < 1:
        raise ConfigError(f"{SECTION}.limit: {source.limit} rows are none; expected at least 1")
    rows = _load(source, base_dir)
    rows = choose_columns(rows, keys, source.columns)
    if source.limit is not None:
        rows = rows.select(range(min(source.limit, len(rows))))
    if not len(rows):
        raise DataError(f"{source.path}, {source.split}: holds no row")
    where = f"{source.path}, {source.split}, row"
    return distinct(
        row_task(f"{where} {number}", row, keys, f"{source.split}-{number}", base_dir)
        for number, row in enumerate(rows)
    )


def _load(source: DatasetSource, base_dir: Path) -> Any:
    library = _library()
    path = base_dir / Path(source.path).expanduser()
    if not path.exists():
        _require_a_name(source.path)
        return _build(library, source, source.path, revision=source.revision)
    _refuse_the_hubs_own(source, path)
    with _quiet(library):
        if _is_saved(path):
            return _saved(library, source, path)
        if path.is_dir():
            return _build(library, source, str(path))
        reader, options = _reader(path)
        return _build(library, source, reader, data_files=str(path), **options)


def _build(library: Any, source: DatasetSource, *where: str, **options: Any) -> Any:
    with _blaming(source, "path"):
        builder = library.load_dataset_builder(*where, name=source.name, **options)
        builder.download_and_prepare()
    splits = list(builder.info.splits or ())
    if source.split.partition("[")[0] not in splits and "+" not in source.split:
        raise _no_split(source, splits)
    with _blaming(source, "split"):
        return builder.as_dataset(split=source.split)


def _saved(library: Any, source: DatasetSource, path: Path) -> Any:
    """What `save_to_disk` wrote: a dataset, or several by split."""
    with _blaming(source, "path"):
        found = library.load_from_disk(str(path))
    if isinstance(found, library.Dataset):
        return found
    if source.split not in found:
        raise _no_split(source, list(found))
    return found[source.split]


def _is_saved(path: Path) -> bool:
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def _reader(path: Path) -> tuple[str, Mapping[str, str]]:
    suffixes = [suffix for suffix in path.suffixes if suffix not in _COMPRESSED]
    found = _READERS.get(suffixes[-1].lower()) if suffixes else None
    if found is None:
        raise ConfigError(f"{SECTION}.path: {path}: cannot tell its format; expected {_FORMATS}")
    return found


def _require_a_name(path: str) -> None:
    """Say that a file is missing, before the Hub is asked for a dataset of that name."""
    looks_like_a_path = path.startswith((".", "/", "~")) or path.count("/") > 1
    if looks_like_a_path or any(suffix in _READERS for suffix in Path(path).suffixes):
        raise DataError(f"{SECTION}.path: {path!r}: no such file or folder")


def _refuse_the_hubs_own(source: DatasetSource, path: Path) -> None:
    named = {"revision": source.revision}
    if path.is_file() or _is_saved(path):
        named["name"] = source.name
    for key, value in named.items():
        if value is not None:
            raise ConfigError(
                f"{SECTION}.{key}: {value!r} means nothing to {source.path}, which lies on this "
                "machine; remove it"
            )


def _no_split(source: DatasetSource, splits: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{SECTION}.split: {source.path} has no {source.split!r}; {nearest(source.split, splits)} "
        f"(it has {', '.join(splits)})"
    )


def _library() -> Any:
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "prompt_source.type: dataset needs the package datasets; install it with: "
            "pip install 'retrain[dataset]'"
        ) from error
    return datasets


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """No progress bars for files that lie here."""
    was_quiet = library.are_progress_bars_disabled()
    library.disable_progress_bars()
    try:
        yield
    finally:
        if not was_quiet:
            library.enable_progress_bars()


@contextmanager
def _blaming(source: DatasetSource, key: str) -> Iterator[None]:
    """Attribute what `datasets` raises, which may be anything, to a key."""
    try:
        yield
    except Exception as error:
        raise _explained(source, key, error) from error


def _explained(source: DatasetSource, key: str, error: Exception) -> ConfigError | DataError:
    name, text = type(error).__name__, str(error).strip()
    path = f"{SECTION}.path: {source.path!r}"
    if "BuilderConfig" in text or text.startswith("Config name is missing"):
        return ConfigError(f"{SECTION}.name: {source.path}: {' '.join(text.split())}")
    if name == "DatasetNotFoundError":
        return DataError(
            f"{path} is no file or folder here, and no dataset on the Hugging Face Hub that this "
            "machine may read; correct it, or log in with `hf auth login` where it is private"
        )
    if isinstance(error, ConnectionError):
        return DataError(
            f"{path} is not in the cache, and the Hugging Face Hub cannot be reached ({text}); "
            "load it once with a connection, or copy its files here and name their folder"
        )
    if name in ("EmptyDatasetError", "DataFilesNotFoundError"):
        return DataError(f"{path} holds no file that can be read; expected {_FORMATS}")
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return DataError(
        f"{SECTION}.{key}: {source.path!r} cannot be read: {type(cause).__name__}: {cause}"
    )
