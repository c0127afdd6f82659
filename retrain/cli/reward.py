"""`retrain reward`: scores a file of responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from retrain.cli.exits import ExitCode
from retrain.cli.options import AsJson, key_value

if TYPE_CHECKING:
    from retrain.reward.hub.cases import Case
    from retrain.reward.hub.marking import Marks

EXAMPLE = """\b
Examples:
  retrain reward answers.jsonl --reward math
  retrain reward answers.jsonl --reward boxed_gpqa --compat slime
  retrain reward answers.jsonl --reward regex --param pattern='\\d+ km' --json
  retrain reward answers.jsonl --reward remote --param url=http://127.0.0.1:8000/score"""


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
    listed; a reward that asks a server scores it once. A response that cannot be scored has a
    failure in place of a reward; where none can be scored, the exit code is 1.
    """
    from retrain.reward.hub.pool import close_pools
    from retrain.reward.hub.response_file import read_cases

    make_marks = _marking(name)(name, params or (), compat, reward_key)
    cases = read_cases(file)
    try:
        marks = make_marks(cases)
    finally:
        close_pools()
    _report(name, compat or "default", cases, marks, as_json=as_json)
    if not marks[compat or "default"].rewards:
        raise typer.Exit(ExitCode.RUN_FAILED)


def _marking(name: str) -> Callable[..., Callable[[Sequence[Case]], dict[str, Marks]]]:
    from retrain.reward.hub.catalogue import MODELS, SERVICES, plain_name

    if name in MODELS:
        return _model_marks
    return _service_marks if plain_name(name) in SERVICES else _rule_marks


def _rule_marks(
    name: str, params: Sequence[str], compat: str | None, reward_key: str
) -> Callable[[Sequence[Case]], dict[str, Marks]]:
    from retrain.reward.hub.catalogue import SLIME, plain_name
    from retrain.reward.hub.marking import mark
    from retrain.reward.hub.scoring import make_scorer

    score = make_scorer(name)
    arguments = _arguments(name, params, compat)
    both = plain_name(name) in SLIME
    modes = {"default": {}, **({"slime": {"compat": "slime"}} if both else {})}
    return lambda cases: {
        mode: mark(score, cases, {**arguments, **extra}, reward_key=reward_key)
        for mode, extra in modes.items()
    }


def _service_marks(
    name: str, params: Sequence[str], compat: str | None, reward_key: str
) -> Callable[[Sequence[Case]], dict[str, Marks]]:
    """One mode only: a server speaks one protocol, and may cost money."""
    import asyncio

    from retrain.reward.hub.service_marking import mark_by_service
    from retrain.reward.hub.service_rewards import ServiceReward, service_reward
    from retrain.signatures import check_config

    given = dict(key_value("--param", text, "timeout=10") for text in params)
    given |= {} if compat is None else {"compat": compat}
    given |= {} if reward_key == "score" else {"reward_key": reward_key}
    reward = ServiceReward(name, check_config(service_reward(name), given, "--param"))
    mode = compat or "default"
    return lambda cases: {mode: asyncio.run(mark_by_service(reward, cases))}


def _model_marks(
    name: str, params: Sequence[str], compat: str | None, reward_key: str
) -> Callable[[Sequence[Case]], dict[str, Marks]]:
    from retrain.errors import ConfigError
    from retrain.reward.hub.reward_model import ModelReward, reward_model
    from retrain.reward.hub.reward_model_marking import mark_by_model
    from retrain.signatures import check_config

    if compat is not None or reward_key != "score":
        raise ConfigError(f"--compat and --reward-key: {name!r} gives one number in one mode")
    given = dict(key_value("--param", text, "model=FOLDER") for text in params)
    reward = reward_model(**check_config(reward_model, given, "--param"))
    assert isinstance(reward, ModelReward), "this is what reward_model makes"
    return lambda cases: {"default": mark_by_model(reward, cases)}


def _arguments(name: str, params: Sequence[str], compat: str | None) -> dict[str, Any]:
    from retrain.errors import ConfigError
    from retrain.reward.hub.catalogue import SLIME, load_rule, plain_name
    from retrain.signatures import check_config

    if compat is not None and plain_name(name) not in SLIME:
        raise ConfigError(f"--compat: slime has no {name!r}; it has {', '.join(sorted(SLIME))}")
    given = dict(key_value("--param", text, "ignore_case=true") for text in params)
    if "compat" in given:
        raise ConfigError("--param compat: use --compat")
    return check_config(load_rule(name), given, "--param", skip=("case",))


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
