"""The arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

ConfigFile = Annotated[
    Path,
    typer.Argument(metavar="CONFIG.yaml", help="The configuration file.", show_default=False),
]

Backend = Annotated[
    str | None,
    typer.Option("--backend", metavar="NAME", help="Wins over algorithm.backend."),
]

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Wins over the file; may stand several times (seed=7, stages.0.name=warm).",
    ),
]

AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document and nothing else."),
]

EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="What writes the turns: transformers (in this process), sglang, openai or vllm. "
        "Wins over rollout.engine.",
        show_default=False,
    ),
]

EngineUrls = Annotated[
    list[str] | None,
    typer.Option("--engine-url", metavar="URL", help="A server of the engine; may be repeated."),
]


def key_value(option: str, text: str, example: str) -> tuple[str, Any]:
    """Read an option's KEY=VALUE.

    Args:
        option: The option ("--param").
        text: What was given.
        example: A right one, for the message.

    Returns:
        The key, and the value as YAML reads it.

    Raises:
        ConfigError: There is no key, no equals sign, or the value is no YAML.
    """
    from retrain.config.document import parse
    from retrain.errors import ConfigError

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{option} {text}: write it as key=value, e.g. {example}")
    return key.strip(), parse(value, f"{option} {text}")


def engine_spec(
    configured: str | Mapping[str, Any], name: str | None, urls: Sequence[str] | None
) -> str | Mapping[str, Any]:
    """The engine that a command line names, or else the configuration's.

    Args:
        configured: `rollout.engine`.
        name: The value of --engine.
        urls: The values of --engine-url.
    """
    if name is None and not urls:
        return configured
    written = {"name": configured} if isinstance(configured, str) else dict(configured)
    chosen = written if name is None else {"name": name}
    return {**chosen, "urls": list(urls)} if urls else chosen
