"""How a configuration reaches the functions that slime loads inside its Ray actors.

slime sets every key of the file that `--custom-config-path` names as an attribute of its `args`.
`handover_document` is that file's content; `read_handover` reads it back from `args`. The
configuration stands in it as JSON text: slime reads the file as YAML 1.1, where 1e-5 is a text and
an escaped emoji two halves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from retrain.config import RunConfig, load_config, redact
from retrain.config.document import read_document
from retrain.config.problems import explain, report
from retrain.errors import ConfigError

HANDOVER = "slime.yaml"
"""The file's name in the run folder."""
ENVIRONMENT_VARIABLE = "RETRAIN_SLIME_CONFIG"
"""Names a handover file, or a run's configuration, for calls whose `args` hold none."""
_CONFIG, _BASE_DIR, _RUN_DIR = "retrain_config", "retrain_base_dir", "retrain_run_dir"


@dataclass(frozen=True, slots=True)
class Handover:
    """What the launching process tells the functions that slime loads.

    Attributes:
        config: The resolved configuration of the run, or of one stage.
        run_dir: The run folder; None where nothing is recorded.
        built_in: Whether nobody configured anything and the built-in offline run is meant.
    """

    config: RunConfig
    run_dir: Path | None = None
    built_in: bool = False


def handover_document(config: RunConfig, run_dir: Path) -> dict[str, str]:
    """What `--custom-config-path` must hold: texts by name, without credentials.

    Args:
        config: The resolved configuration.
        run_dir: The run folder, as the nodes see it.
    """
    return {
        _CONFIG: json.dumps(redact(config.model_dump(mode="json"))),
        _BASE_DIR: str(config.base_dir.absolute()),
        _RUN_DIR: str(run_dir.absolute()),
    }


def read_handover(args: Any) -> Handover:
    """Read the configuration of a call.

    It stands on `args`; where `args` is None or bare, as in slime's contract tests, the file that
    `RETRAIN_SLIME_CONFIG` names is read (a handover, or a configuration of retrain), and without
    one the built-in offline run is meant.

    Args:
        args: slime's arguments, or None.

    Raises:
        ConfigError: `args` are those of a real run and hold no configuration, or it does not fit.
    """
    content = getattr(args, _CONFIG, None)
    if content is not None:
        fields = {key: getattr(args, key, None) for key in (_BASE_DIR, _RUN_DIR)}
        return _handover({_CONFIG: content, **fields}, "--custom-config-path")
    path = os.environ.get(ENVIRONMENT_VARIABLE)
    if path:
        return _read_file(Path(path))
    if hasattr(args, "hf_checkpoint"):
        raise ConfigError(
            f"slime's arguments hold no {_CONFIG}: pass --custom-config-path RUN/{HANDOVER}, which "
            "`retrain train` writes"
        )
    from backends.slime.offline import offline_config

    return Handover(offline_config(), built_in=True)


def _read_file(path: Path) -> Handover:
    content, _ = read_document(path)
    if _CONFIG in content:
        return _handover(content, str(path))
    return Handover(load_config(path))


def _handover(document: Mapping[str, Any], where: str) -> Handover:
    content = _content(document[_CONFIG], where)
    try:
        config = RunConfig.model_validate(content)
    except ValidationError as error:
        raise ConfigError(report(where, explain(error, content, RunConfig))) from error
    base_dir, run_dir = document.get(_BASE_DIR), document.get(_RUN_DIR)
    if base_dir:
        config = config.located(Path(base_dir))
    return Handover(config, Path(run_dir) if run_dir else None)


def _content(text: object, where: str) -> dict[str, Any]:
    try:
        content = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConfigError(
            f"{where}: {_CONFIG} must be a configuration as JSON text, got {text!r:.80}; pass the "
            f"{HANDOVER} that `retrain train` writes"
        )
    return content
