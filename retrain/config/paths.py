"""Make a configuration's relative paths absolute, so that its copy works from any folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrain.config.section import At

_PATHS: tuple[At, ...] = (("slime_laptop", "slime"), ("slime_laptop", "megatron"))
_SOURCES: tuple[At, ...] = (("prompt_source",), ("evaluation", "prompt_source"))
_NAMES_OR_PATHS: tuple[At, ...] = (("model", "name_or_path"), ("model", "tokenizer"))


def resolve_paths(
    content: Mapping[str, Any], folder: Path, above: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A copy of a file's content whose paths are absolute, its stages' included.

    A model's name, and a dataset's, is a path when it says so (`./x`, `../x`, `~/x`) or when it
    exists in `folder`; otherwise it is a name on the Hub and stays. What is not text stays for
    validation to refuse.

    Args:
        content: What the file holds.
        folder: What relative paths are relative to.
        above: What a stage is laid over: its prompt source may inherit its type.
    """
    resolved = dict(content)
    for at in _SOURCES:
        kind = _at(content, (*at, "type")) or _at(above, (*at, "type"))
        place = (*at, "source_config", "path")
        resolved = _replace(resolved, place, folder, certain=kind != "dataset")
    for at in _PATHS:
        resolved = _replace(resolved, at, folder, certain=True)
    for at in _NAMES_OR_PATHS:
        resolved = _replace(resolved, at, folder, certain=False)
    stages = resolved.get("stages")
    if isinstance(stages, list):
        resolved["stages"] = [
            resolve_paths(stage, folder, content) if isinstance(stage, Mapping) else stage
            for stage in stages
        ]
    return resolved


def _at(content: Any, at: At) -> Any:
    for key in at:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


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
