"""`config.yaml` of a run folder as it was written, for reports about the run.

It is not checked as a configuration is: a report is written about any run, whatever its age. What
cannot be walked to its end is refused: people edit the file, and an alias may lead back to itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrain.errors import DataError
from retrain.report.run_folder import CONFIG

_DEEPEST = 100
_MOST = 100_000
"""Values in a file, counted once for each place that an alias puts them in."""


def read_written_config(run_dir: Path) -> Mapping[str, Any]:
    """The settings of a run, as plain mappings, lists and scalars.

    Args:
        run_dir: The run folder, or a stage's.

    Raises:
        DataError: The file is missing or no mapping, cannot be read, nests too deep, or contains
            itself.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = run_dir / CONFIG
    try:
        found = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: is missing, so its settings are not known") from None
    except RecursionError:
        raise _unreadable(path, "it nests too deep") from None
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise _unreadable(path, first) from error
    if not isinstance(found, Mapping):
        raise DataError(f"{path}: holds no mapping, so its settings are not known")
    _check_extent(path, found)
    return found


def _check_extent(path: Path, config: Any) -> None:
    """Walk all values, level by level: what contains itself has no last level."""
    level, seen = [config], 0
    for _ in range(_DEEPEST):
        seen += len(level)
        if not level or seen > _MOST:
            break
        level = [inner for value in level for inner in _inside(value)]
    if level:
        raise _unreadable(
            path, f"it nests deeper than {_DEEPEST} or holds more than {_MOST:,} values"
        )


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _unreadable(path: Path, why: str) -> DataError:
    return DataError(f"{path}: cannot be read ({why}), so its settings are not known")
