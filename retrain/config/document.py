"""Read YAML 1.2 safely, and remember on which line every key stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from retrain.config.section import At
from retrain.errors import ConfigError

_DEEPEST = 64


class _Constructor(SafeConstructor):
    """Safe, and a date is text, as in YAML 1.2's own schema."""


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


def read_document(path: Path) -> tuple[dict[str, Any], dict[At, str]]:
    """Read a configuration file.

    Returns:
        Its content, and for every place in it the words "line N".

    Raises:
        ConfigError: The file is missing, unreadable, empty, or not one YAML mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; name a YAML configuration") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; name the YAML file in it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    content = parse(text, str(path))
    if content is None:
        raise ConfigError(f"{path}: is empty; it needs at least a model and an algorithm section")
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected a mapping (lines of `key: value`) at the top")
    lines: dict[At, str] = {}
    _collect(_yaml().compose(text), (), lines)
    return content, lines


def parse(text: str, where: str) -> Any:
    """Parse one YAML document.

    Args:
        text: The YAML.
        where: What it is, for messages.

    Raises:
        ConfigError: Naming the line that is not YAML, or the key that stands twice.
    """
    try:
        return _yaml().load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{where}{line}: {_said(error)}") from error
    except (YAMLError, ValueError, RecursionError) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(f"{where}: is not YAML: {first}") from error


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    return yaml


def _said(error: MarkedYAMLError) -> str:
    problem = error.problem or "is not YAML"
    if problem.startswith("found duplicate key"):
        key = problem.split('"')[1]
        return f"the key {key!r} stands twice in one mapping; keep one"
    if "\\t" in problem:
        return "a tab indents this line; YAML wants spaces"
    return f"is not YAML: {problem}"


def _collect(node: Node | None, at: At, lines: dict[At, str]) -> None:
    if len(at) > _DEEPEST:
        return
    for key, place, value in _children(node):
        inner = (*at, key)
        lines[inner] = f"line {place.start_mark.line + 1}"
        _collect(value, inner, lines)


def _children(node: Node | None) -> Iterator[tuple[str | int, Node, Node]]:
    if isinstance(node, MappingNode):
        pairs = ((key, value) for key, value in node.value if isinstance(key, ScalarNode))
        yield from ((key.value, key, value) for key, value in pairs)
    elif isinstance(node, SequenceNode):
        yield from ((number, value, value) for number, value in enumerate(node.value))
