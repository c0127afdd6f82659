"""The options of the slime on this machine, read from its source text: nothing is imported."""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.base import Problem, Severity
from backends.slime.flags import Flag, known_flags, option_name
from backends.slime.flags_contract import missing_names
from retrain.config import RunConfig
from retrain.packages import package_folders

TESTED = "0.3.1"
"""The release of slime that the table of options was taken from (624b824a)."""

ARGUMENTS = Path("slime", "utils", "arguments.py")
"""Where slime defines its options, from its root."""


@dataclass(frozen=True, slots=True)
class SlimeSource:
    """A slime that was found.

    Attributes:
        root: The folder that holds the package `slime`.
        flags: Its own options, by name.
        problems: Where it differs from the tested one.
    """

    root: Path
    flags: Mapping[str, Flag] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def find_source(config: RunConfig) -> SlimeSource | None:
    """The slime that a run would use, as far as this machine can see it; None where it cannot."""
    named = config.cluster.slime
    if config.slime_laptop is not None:
        named = config.slime_laptop.slime or os.environ.get("RETRAIN_SLIME")
    roots = [Path(named)] if named else []
    roots += [location.parent for location in package_folders("slime")]
    root = next((root for root in roots if (root / ARGUMENTS).is_file()), None)
    if root is None:
        return None
    flags = declared_flags((root / ARGUMENTS).read_text(encoding="utf-8"))
    return SlimeSource(root, flags, tuple(differences(root, flags)))


def declared_flags(source: str) -> dict[str, Flag]:
    """The options that slime's `arguments.py` declares, by name.

    Args:
        source: Its text.
    """
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    flags = (
        _flag(argument.value, call)
        for call in calls
        if _name(call.func) in ("add_argument", "reset_arg")
        for argument in call.args
        if isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and argument.value.startswith("--")
    )
    return {flag.name: flag for flag in flags}


def _flag(spelling: str, call: ast.Call) -> Flag:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    action = _text(given.get("action"))
    negatable = action == "BooleanOptionalAction"
    switch = negatable or action in ("store_true", "store_false")
    return Flag(
        spelling=spelling,
        owner="slime",
        dest=_text(given.get("dest")) or option_name(spelling),
        kind="bool" if switch else _text(given.get("type")) or "str",
        nargs=0 if switch else _literal(given.get("nargs")),
        choices=tuple(map(str, _literal(given.get("choices")) or ())),
        negation=spelling.replace("--", "--no-", 1) if negatable else "",
        repeatable=action == "append",
    )


def _text(node: ast.expr | None) -> str:
    """A text, or the last part of a name: `json.loads` is "loads"."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "" if node is None else _name(node)


def _literal(node: ast.expr | None) -> Any:
    """What is written there; None where it is computed."""
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def differences(root: Path, options: Collection[str]) -> list[Problem]:
    """Say where a slime is not the tested one.

    Args:
        root: The folder that holds the package `slime`.
        options: What it declares, by name.

    Returns:
        Nothing where it has the tested one's options and all that the plugin uses; a warning where
        its options are others; an error where it lacks what the plugin uses.
    """
    untested = f"the slime in {root} is not the tested {TESTED} (624b824a)"
    missing = missing_names(root)
    if missing:
        text = f"{untested}: it lacks what retrain uses, {_few(missing)}; use the tested one"
        return [Problem("cluster.slime", text)]
    known = {name for name, flag in known_flags().items() if flag.owner == "slime"}
    known = {name for name in known if not known_flags()[name].spelling.startswith("--no-")}
    gone = [f"--{name.replace('_', '-')}" for name in sorted(known.difference(options))]
    new = [f"--{name.replace('_', '-')}" for name in sorted(set(options) - known_flags().keys())]
    told = [f"it does not declare {_few(gone)}"] if gone else []
    told += [f"it also declares {_few(new)}"] if new else []
    if not told:
        return []
    text = f"{untested}: {', and '.join(told)}; what retrain uses of it is there"
    return [Problem("cluster.slime", text, Severity.WARNING)]


def undeclared(source: SlimeSource, sent: Collection[str]) -> list[Problem]:
    """Refuse options that a slime would not read: it ignores what it does not declare.

    Args:
        source: The slime of the run.
        sent: The options of the run, by name.
    """
    flags = known_flags()
    ours = [name for name in sent if name in flags and flags[name].owner == "slime"]
    gone = [flags[name].spelling for name in ours if name not in source.flags]
    if not gone:
        return []
    text = (
        f"the slime in {source.root} does not declare {_few(gone)}, which this run needs: it would "
        f"train without; use the tested {TESTED} (624b824a)"
    )
    return [Problem("cluster.slime", text)]


def _few(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
