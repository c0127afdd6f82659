"""`retrain rollout --replay`: a tape played into the present code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from retrain.cli.exits import ExitCode, say
from retrain.report.terminal import printable

if TYPE_CHECKING:
    from retrain.cli.rollout_playing import Replayed
    from retrain.compose import Composition
    from retrain.rollout.tape.header import SettingDifference

_SHOWN = 20
"""Departures that are printed in full."""


def replay_tape(composition: Composition, path: Path, *, as_json: bool) -> None:
    """Play a tape and say where the present code departs from it.

    Args:
        composition: The bridges that it is played into.
        path: The tape.
        as_json: Print one JSON document and nothing else.

    Raises:
        DataError: The tape cannot be read.
        typer.Exit: With 1, where anything departs.
    """
    from retrain.cli.rollout_playing import replay
    from retrain.rollout.tape import Tape
    from retrain.rollout.tape.header import settings_that_differ

    with Tape(path) as tape:
        settings = settings_that_differ(tape.header, composition.config)
        if not as_json:
            for difference in settings:
                say(f"warning: {difference}")
        groups = list(replay(composition, tape.groups()))
    if as_json:
        _print_document(settings, groups)
    else:
        _print_text(groups)
    if any(group.departures for group in groups):
        raise typer.Exit(ExitCode.RUN_FAILED)


def _print_text(groups: Sequence[Replayed]) -> None:
    found = [departure for group in groups for departure in group.departures]
    for departure in found[:_SHOWN]:
        typer.echo("\n".join(printable(line) for line in str(departure).split("\n")))
    if len(found) > _SHOWN:
        typer.echo(f"and {len(found) - _SHOWN} more; --json lists them all")
    episodes, turns, tokens = _totals(groups)
    outcome = _departed(groups) if found else "identical"
    typer.echo(f"{episodes:,} episodes, {turns:,} turns, {tokens:,} tokens: {outcome}")


def _departed(groups: Sequence[Replayed]) -> str:
    found = [departure for group in groups for departure in group.departures]
    episodes = {(d.task_id, d.visit, d.sample_index) for d in found}
    noun = "departure" if len(found) == 1 else "departures"
    return f"{len(found)} {noun} in {len(episodes)} of them"


def _print_document(settings: Sequence[SettingDifference], groups: Sequence[Replayed]) -> None:
    episodes, turns, tokens = _totals(groups)
    found = [asdict(departure) for group in groups for departure in group.departures]
    document = {
        "identical": not found,
        "episodes": episodes,
        "turns": turns,
        "tokens": tokens,
        "settings": [asdict(difference) for difference in settings],
        "departures": found,
    }
    typer.echo(json.dumps(document, indent=2))


def _totals(groups: Sequence[Replayed]) -> tuple[int, int, int]:
    return (
        sum(group.episodes for group in groups),
        sum(group.turns for group in groups),
        sum(group.tokens for group in groups),
    )
