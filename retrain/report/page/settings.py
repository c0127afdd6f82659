"""The configuration, the versions and the command that reproduces a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from retrain.report.page.markup import Html, element, joined, table
from retrain.report.record import RunRecord
from retrain.report.run_folder import CONFIG

_LONGEST = 400


def reproduction(record: RunRecord) -> Html:
    """How the run was begun, and how to do it again."""
    root = record.folder.parent.parent if record.folder.parent.name == "stages" else record.folder
    again = ["retrain", "train", str(root / CONFIG), "--set", f"output_dir={_beside(root)}"]
    parts = [
        element("p", "From what the run folder holds, with every default written out:"),
        element("pre", shlex.join(again), class_="command"),
    ]
    typed = [beginning for beginning in record.beginnings if beginning.command]
    if typed:
        parts.append(element("p", "As it was typed:"))
    for beginning in typed:
        moment = datetime.fromtimestamp(beginning.time, UTC).strftime("%Y-%m-%d %H:%M UTC")
        said = f"# {moment}, in {beginning.folder}\n{shlex.join(beginning.command)}"
        parts.append(element("pre", said, class_="command"))
    return joined(parts)


def versions(records: Sequence[RunRecord], names: Sequence[str]) -> Html:
    """Versions and machine of each run."""
    facts = [_facts(record) for record in records]
    rows = dict.fromkeys(name for fact in facts for name in fact)
    if not rows:
        return element("p", "The run recorded no versions.", class_="quiet")
    cells = ((name, *(fact.get(name, "-") for fact in facts)) for name in rows)
    return table(("", *(name or "version" for name in names)), cells)


def _facts(record: RunRecord) -> dict[str, str]:
    if not record.beginnings:
        return {}
    newest = record.beginnings[-1]
    return {**newest.packages, **newest.machine}


def configuration(record: RunRecord) -> Html:
    """Every setting, by section."""
    if not record.config:
        return element("p", "The configuration cannot be read.", class_="quiet")
    groups: dict[str, list[tuple[str, str]]] = {}
    for key, value in flattened(record.config):
        section, dot, rest = key.partition(".")
        name, shown = (section, rest) if dot else ("run", key)
        groups.setdefault(name, []).append((shown, value))
    return joined(
        element(
            "details",
            element("summary", name, element("span", f" {len(rows)}", class_="quiet")),
            table(("key", "value"), rows, class_="settings"),
        )
        for name, rows in groups.items()
    )


def differences(records: Sequence[RunRecord], names: Sequence[str]) -> Html:
    """The settings in which runs differ."""
    flat = [dict(flattened(record.config)) for record in records]
    keys = sorted({key for run in flat for key in run})
    rows = [
        (key, *(run.get(key, "-") for run in flat))
        for key in keys
        if len({run.get(key) for run in flat}) > 1
    ]
    if not rows:
        return element("p", "They have the same configuration.", class_="quiet")
    return table(("key", *names), rows, class_="settings")


def flattened(value: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    """Every setting as its path and its value, as JSON; a long one is shortened."""
    for key, inner in value.items():
        path = f"{at}{key}"
        if isinstance(inner, Mapping) and inner:
            yield from flattened(inner, f"{path}.")
        else:
            text = inner if isinstance(inner, str) else json.dumps(inner, default=str)
            short = (
                text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … {len(text):,} characters"
            )
            yield path, short


def _beside(root: Path) -> str:
    return str(root.with_name(f"{root.name}-again"))
