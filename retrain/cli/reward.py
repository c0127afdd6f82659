"""`retrain reward`: scores a file of responses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from retrain.cli.exits import ExitCode
from retrain.cli.options import AsJson

if TYPE_CHECKING:
    from retrain.reward.hub.cases import Case
    from retrain.reward.hub.marking import Marks

EXAMPLE = """\b
Examples:
  retrain reward answers.jsonl --reward math
  retrain reward answers.jsonl --reward boxed_gpqa --compat slime
  retrain reward answers.jsonl --reward regex --param pattern='\\d+ km' --json"""


def reward(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.jsonl",
            help="Lines with a response and, as the rule needs them, label, metadata and tokens.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str,
        typer.Option("--reward", metavar="NAME", help="A rule of the hub.", show_default=False),
    ],
    compat: Annotated[
        Literal["slime"] | None,
        typer.Option("--compat", help="Give the scores of slime's rule of that name."),
    ] = None,
    params: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="KEY=VALUE", help="An argument of the rule, as YAML."),
    ] = None,
    reward_key: Annotated[
        str,
        typer.Option(
            "--reward-key", metavar="KEY", help="The reward in a score of several values."
        ),
    ] = "score",
    as_json: AsJson = False,
) -> None:
    """Score a file of responses with a rule of the reward hub.

    Where slime has a rule of that name, both modes score the file, and what they disagree on is
    listed. A response that cannot be scored has a failure in place of a reward; where none can be
    scored, the exit code is 1.
    """
    from retrain.reward.hub.catalogue import SLIME, plain_name
    from retrain.reward.hub.marking import mark
    from retrain.reward.hub.pool import close_pools
    from retrain.reward.hub.response_file import read_cases
    from retrain.reward.hub.scoring import make_scorer

    score = make_scorer(name)
    arguments = _arguments(name, params or (), compat)
    cases = read_cases(file)
    both = plain_name(name) in SLIME
    modes = {"default": {}, **({"slime": {"compat": "slime"}} if both else {})}
    try:
        marks = {
            mode: mark(score, cases, {**arguments, **extra}, reward_key=reward_key)
            for mode, extra in modes.items()
        }
    finally:
        close_pools()
    _report(name, compat or "default", cases, marks, as_json=as_json)
    if not marks[compat or "default"].rewards:
        raise typer.Exit(ExitCode.RUN_FAILED)


def _arguments(name: str, params: Sequence[str], compat: str | None) -> dict[str, Any]:
    from retrain.errors import ConfigError
    from retrain.reward.hub.catalogue import SLIME, load_rule, plain_name
    from retrain.signatures import check_config

    if compat is not None and plain_name(name) not in SLIME:
        raise ConfigError(f"--compat: slime has no {name!r}; it has {', '.join(sorted(SLIME))}")
    given = dict(map(_argument, params))
    if "compat" in given:
        raise ConfigError("--param compat: use --compat")
    return check_config(load_rule(name), given, "--param", skip=("case",))


def _argument(text: str) -> tuple[str, Any]:
    from retrain.config.document import parse
    from retrain.errors import ConfigError

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--param {text}: write it as key=value, e.g. ignore_case=true")
    return key.strip(), parse(value, f"--param {text}")


def _report(
    name: str, chosen: str, cases: Sequence[Case], marks: Mapping[str, Marks], *, as_json: bool
) -> None:
    if as_json:
        from retrain.cli.reward_document import reward_document

        typer.echo(json.dumps(reward_document(name, chosen, cases, marks), indent=2))
        return
    from rich.console import Console

    from retrain.cli.reward_text import print_marks

    print_marks(name, chosen, cases, marks, Console())
