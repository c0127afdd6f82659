"""`--set a.b.c=value`: lay values given on the command line over a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrain.config.document import parse
from retrain.config.merge import deep_merge
from retrain.config.section import At
from retrain.errors import ConfigError


def parse_override(text: str) -> tuple[At, Any]:
    """Split `a.b.0.c=value` into a place and a value, which is YAML.

    Raises:
        ConfigError: It is not of that form.
    """
    key, equals, value = text.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {text}: write it as key.key=value, e.g. {_EXAMPLE}")
    return tuple(int(p) if p.isdecimal() else p for p in parts), parse(value, f"--set {text}")


def apply_override(content: Mapping[str, Any], at: At, value: Any, text: str) -> dict[str, Any]:
    """Lay one value over a file's content.

    A number in the place is a position in a list that the file holds (`stages.1.algorithm.name`).

    Args:
        content: What the file holds.
        at: The place.
        value: The value; a mapping merges with the one that is there.
        text: The option as it was typed, for messages.

    Raises:
        ConfigError: The place leads through a list position that is not there.
    """
    position = next((i for i, part in enumerate(at) if isinstance(part, int)), None)
    if position is None:
        return deep_merge(content, _nested(at, value))
    above, number, below = at[:position], at[position], at[position + 1 :]
    rows = _at(content, above)
    if not isinstance(rows, list) or not isinstance(number, int) or number >= len(rows):
        known = f"a list of {len(rows)}" if isinstance(rows, list) else "no list"
        raise ConfigError(f"--set {text}: {'.'.join(map(str, above))} is {known} in the file")
    row = rows[number]
    if below and not isinstance(row, Mapping):
        raise ConfigError(f"--set {text}: entry {number} of {above[-1]} holds no keys")
    changed = apply_override(row, below, value, text) if below else value
    rows = [*rows[:number], changed, *rows[number + 1 :]]
    return deep_merge(content, _nested(above, rows))


def _nested(at: At, value: Any) -> dict[str, Any]:
    for part in reversed(at[1:]):
        value = {part: value}
    return {str(at[0]): value}


def _at(content: Any, at: At) -> Any:
    for part in at:
        content = content.get(part) if isinstance(content, Mapping) else None
    return content


_EXAMPLE = "--set algorithm.hyperparameters.learning_rate=1e-5"
