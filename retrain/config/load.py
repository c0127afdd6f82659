"""YAML file to `RunConfig`, with every problem named at its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from retrain.config.document import read_document
from retrain.config.overrides import apply_override, parse_override
from retrain.config.paths import resolve_paths
from retrain.config.problems import Problem, explain, report
from retrain.config.run import RunConfig
from retrain.config.section import At
from retrain.errors import ConfigError

Places = Mapping[At, str]


def load_config(
    path: str | Path, overrides: Sequence[str] = (), backend: str | None = None
) -> RunConfig:
    """Read, check and resolve a configuration file.

    Relative paths in the file are relative to the file's folder, those of `overrides` to the
    working directory, and so is `output_dir`.

    Args:
        path: The YAML file.
        overrides: `key.key=value`, as after `--set`; later ones win.
        backend: Wins over `algorithm.backend`; a stage that names its own backend keeps it.

    Raises:
        ConfigError: Naming the file and, for every problem, the line, the key, what was expected
            and the nearest known key.
    """
    path = Path(path)
    content, lines = read_document(path)
    base_dir = path.resolve().parent
    content = resolve_paths(content, base_dir)
    places: dict[At, str] = dict(lines)
    for text in overrides:
        at, value = parse_override(text)
        content = resolve_paths(apply_override(content, at, value, text), Path.cwd())
        places[at] = f"--set {text}"
    algorithm = content.get("algorithm")
    if backend is not None and isinstance(algorithm, Mapping):
        content = {**content, "algorithm": {**algorithm, "backend": backend}}
        places["algorithm", "backend"] = f"--backend {backend}"
    return _validate(content, places, str(path)).located(base_dir)


def _validate(content: Mapping[str, Any], places: Places, where: str) -> RunConfig:
    try:
        config = RunConfig.model_validate(content)
    except ValidationError as error:
        found = explain(error, content, RunConfig)
        problems = [_placed(p, p.at, places) for p in found]
        raise ConfigError(report(where, sorted(problems, key=_line))) from error
    problems = [p for n in range(len(config.stages)) for p in _stage_problems(config, n, places)]
    if problems:
        raise ConfigError(report(where, sorted(problems, key=_line)))
    return config


def _stage_problems(config: RunConfig, number: int, places: Places) -> list[Problem]:
    try:
        config.stage_config(number)
    except ValidationError as error:
        stage = f"stages[{number}] ({config.stages[number].name})"
        found = explain(error, config.stage_source(number), RunConfig)
        return [replace(_of_stage(p, number, places), stage=stage) for p in found]
    return []


def _of_stage(problem: Problem, number: int, places: Places) -> Problem:
    """Place a stage's problem in the stage, or where it was inherited from."""
    own: At = ("stages", number, *problem.at)
    inherited = _depth(problem.at, places) > _depth(own, places) - 2
    return _placed(problem, problem.at if inherited else own, places)


def _placed(problem: Problem, at: At, places: Places) -> Problem:
    """Say where the file, or an option, wrote it: itself, or the nearest section around it."""
    depth = _depth(at, places)
    return replace(problem, place=places[at[:depth]] if depth else "")


def _depth(at: At, places: Places) -> int:
    """How much of a place was written somewhere."""
    return next((n for n in range(len(at), 0, -1) if at[:n] in places), 0)


def _line(problem: Problem) -> int:
    number = problem.place.removeprefix("line ")
    return int(number) if number.isdecimal() else 0
