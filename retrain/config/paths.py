"""Make a configuration's relative paths absolute, so that its copy works from any folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrain.config.section import At

_PATHS: tuple[At, ...] = (
    ("prompt_source", "source_config", "path"),
    ("evaluation", "prompt_source", "source_config", "path"),
    ("slime_laptop", "slime"),
    ("slime_laptop", "megatron"),
)
_NAMES_OR_PATHS: tuple[At, ...] = (("model", "name_or_path"), ("model", "tokenizer"))


def resolve_paths(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A copy of a file's content whose paths are absolute, its stages' included.

    A model's name is a path when it says so (`./x`, `../x`, `~/x`) or when it exists in `folder`;
    otherwise it is a name on the Hub and stays. What is not text stays for validation to refuse.

    Args:
        content: What the file holds.
        folder: What relative paths are relative to.
    """
    resolved = dict(content)
    for at in _PATHS:
        resolved = _replace(resolved, at, folder, certain=True)
    for at in _NAMES_OR_PATHS:
        resolved = _replace(resolved, at, folder, certain=False)
    stages = resolved.get("stages")
    if isinstance(stages, list):
        resolved["stages"] = [
            resolve_paths(stage, folder) if isinstance(stage, Mapping) else stage
            for stage in stages
        ]
    return resolved


def _replace(content: Mapping[str, Any], at: At, folder: Path, *, certain: bool) -> dict[str, Any]:
    key, rest = str(at[0]), at[1:]
    value = content.get(key)
    if rest and isinstance(value, Mapping):
        return {**content, key: _replace(value, rest, folder, certain=certain)}
    if rest or not isinstance(value, str) or not value:
        return dict(content)
    path = folder / Path(value).expanduser()
    if certain or value.startswith(("./", "../", "~")) or path.exists():
        return {**content, key: str(path.resolve())}
    return dict(content)
