"""Prompt sources: a list, a JSONL file, a Hugging Face dataset or an environment gives tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from retrain.errors import ConfigError, DataError, nearest
from retrain.rollout.sources_dataset import DatasetSource, dataset_tasks
from retrain.rollout.sources_environment import environment_tasks
from retrain.rollout.sources_rows import SECTION, RowKeys, distinct, row_task
from retrain.signatures import check_config
from retrain.types import Task

_KEYS = ("id_key", "prompt_key", "label_key", "images_key")
_KNOWN: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "list": ("items", ()),
    "jsonl": ("path", ()),
    "dataset": ("path", ("name", "split", "revision", "columns", "limit")),
}
"""Kind to the setting that it needs, and to those that it takes besides the row keys."""


def make_tasks(
    kind: str,
    source_config: Mapping[str, Any],
    base_dir: Path,
    *,
    environment: str = "",
    seed: int = 0,
) -> tuple[Task, ...]:
    """Make the tasks of a `prompt_source:` section.

    Args:
        kind: "list", "jsonl", "dataset" or "environment".
        source_config: `items` for a list; `path` for JSONL; the fields of `DatasetSource`; what the
            environment's `tasks` takes. All but the last also take `id_key`, `prompt_key`,
            `label_key` and `images_key`.
        base_dir: What a relative path is relative to.
        environment: The `environment.type` that "environment" asks.
        seed: What an environment makes its tasks with.

    Raises:
        ConfigError: The section is wrong.
        DataError: The rows are wrong.
        MissingDependency: "dataset" without the package `datasets`.
    """
    if kind == "environment":
        return environment_tasks(environment, source_config, seed)
    if kind not in _KNOWN:
        known = nearest(kind, [*_KNOWN, "environment"])
        raise ConfigError(f"prompt_source.type: {kind!r} is no kind of prompt source; {known}")
    options = {key: value for key, value in source_config.items() if value is not None}
    needed, optional = _KNOWN[kind]
    _check_names(kind, options, needed, optional)
    given = [key for key in _KEYS if key in options]
    keys = RowKeys(**{key.removesuffix("_key"): _text(key, options.pop(key)) for key in given})
    return _READ[kind](options, keys, base_dir)


def list_tasks(
    rows: Sequence[Any], keys: RowKeys, where: str, base: Path | None = None
) -> tuple[Task, ...]:
    """Turn rows (mappings, or plain prompts) into tasks.

    Args:
        rows: The rows.
        keys: Which key holds what.
        where: What the rows are, for messages ("prompt_source.source_config.items").
        base: What the paths of images are relative to; None leaves them.

    Raises:
        DataError: Naming the row that cannot be used.
    """
    if not rows:
        raise DataError(f"{where}: holds no row; give at least one prompt")
    named = ((f"{where}[{number}]", row) for number, row in enumerate(rows))
    return distinct(
        row_task(name, row, keys, str(at), base) for at, (name, row) in enumerate(named)
    )


def jsonl_tasks(path: Path, keys: RowKeys) -> tuple[Task, ...]:
    """Read tasks from a JSONL file: one JSON object a line; empty lines are passed over.

    The paths of images are relative to the file's folder.

    Raises:
        DataError: Naming the file and line that cannot be used.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; {SECTION}.path must name one")
    tasks = distinct(
        row_task(where, row, keys, f"{path.stem}-{number}", path.parent)
        for number, where, row in _rows(path)
    )
    if not tasks:
        raise DataError(f"{path}: holds no row; give at least one JSON object a line")
    return tasks


def _rows(path: Path) -> Iterator[tuple[int, str, Any]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield number, f"{path}:{number}", json.loads(line.decode("utf-8-sig"))
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}:{number}: is not UTF-8 (byte {error.start}); save the file as UTF-8"
                ) from error
            except json.JSONDecodeError as error:
                raise DataError(
                    f"{path}:{number}: is not JSON ({error.msg} at column {error.colno}); each "
                    "line must be one JSON object"
                ) from error


def _check_names(
    kind: str, options: Mapping[str, Any], needed: str, optional: Sequence[str]
) -> None:
    if needed not in options:
        raise ConfigError(f"{SECTION}.{needed}: is missing; {kind} needs it")
    unknown = sorted(options.keys() - {needed, *optional, *_KEYS})
    if unknown:
        raise ConfigError(
            f"{SECTION}.{unknown[0]}: is not known; {kind} takes "
            f"{', '.join([needed, *optional, *_KEYS])}"
        )


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{SECTION}.{key}: expected text, got {value!r:.80}")
    return value


def _of_list(options: Mapping[str, Any], keys: RowKeys, base_dir: Path) -> tuple[Task, ...]:
    items = options["items"]
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise ConfigError(f"{SECTION}.items: must be a list of prompts or rows")
    return list_tasks(items, keys, f"{SECTION}.items", base_dir)


def _of_jsonl(options: Mapping[str, Any], keys: RowKeys, base_dir: Path) -> tuple[Task, ...]:
    return jsonl_tasks(base_dir / _text("path", options["path"]), keys)


def _of_dataset(options: Mapping[str, Any], keys: RowKeys, base_dir: Path) -> tuple[Task, ...]:
    checked = check_config(DatasetSource, options, SECTION)
    return dataset_tasks(DatasetSource(**checked), keys, base_dir)


_READ: Mapping[str, Callable[[dict[str, Any], RowKeys, Path], tuple[Task, ...]]] = {
    "list": _of_list,
    "jsonl": _of_jsonl,
    "dataset": _of_dataset,
}
