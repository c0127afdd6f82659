"""A dry run for people."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from retrain.cli.collecting import explained_collecting
from retrain.cli.sizes import explained_sizes
from retrain.report.terminal import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console

    from backends.base import Plan
    from retrain.cli.inspection import Inspection, TemplateFacts


def print_inspection(found: Inspection, console: Console) -> None:
    """Print one stage: what the framework receives, one episode, and what is wrong."""
    plan = found.plan
    name = plan.config.experiment_name + (f", stage {found.name}" if found.name else "")
    _heading(f"== {name} ==", console)
    _section("configuration, resolved", _configuration(plan), console)
    _section(f"what {plan.backend} receives: {plan.entry}", _arguments(plan), console)
    if plan.command:
        _section("its command line", _command(plan), console)
    _section("sizes", _aligned(explained_sizes(plan)), console)
    if collecting := explained_collecting(plan):
        _section("collecting", _aligned(collecting), console)
    if plan.memory:
        _section("memory, estimated (not all parts at once)", _memory(plan), console)
    if found.template is not None:
        _section("chat template", _template(found.template), console)
    if found.preview is not None:
        _print_episode(found, console)
    lines = [f"{problem.severity}: {problem}" for problem in plan.problems]
    _section("what cannot be honoured, and warnings", lines or ["none"], console)


def _print_episode(found: Inspection, console: Console) -> None:
    from retrain.report.episode_view import CLOSE, OPEN, print_episode

    assert found.preview is not None and found.composition is not None
    turns = "recorded turns" if found.preview.recorded else "scripted turns, not a model's"
    plain = console.no_color or console.color_system is None
    mask = f"between {OPEN} and {CLOSE}" if plain else "green"
    _heading(f"-- one episode ({turns}); trained tokens are {mask} --", console)
    for sample in found.preview.samples:
        print_episode(sample, found.composition.renderer.decode, console)
    console.print()


def _configuration(plan: Plan) -> list[str]:
    from retrain.config import dump_config

    return dump_config(plan.config).rstrip().splitlines()


def _arguments(plan: Plan) -> Iterator[str]:
    from retrain.config import redact

    arguments = redact(plan.arguments)
    return _aligned({name: json.dumps(arguments[name]) for name in sorted(arguments)})


def _command(plan: Plan) -> list[str]:
    """The command, to copy: an option a line."""
    words = [shlex.quote(word) for word in plan.command]
    begins = [i for i, word in enumerate(words) if word.startswith("--")]
    ends = [*begins[1:], len(words)]
    options = [" ".join(words[i:j]) for i, j in zip(begins, ends, strict=True)]
    program = " ".join(words[: begins[0] if begins else len(words)])
    return " \\\n  ".join([program, *options]).splitlines()


def _memory(plan: Plan) -> Iterator[str]:
    return _aligned({name: f"{size / 2**20:,.0f} MiB" for name, size in plan.memory.items()})


def _template(template: TemplateFacts) -> Iterator[str]:
    stops = ", ".join(f"{token} {text!r}" for token, text in template.stop_tokens.items())
    yield f"tool format: {template.tool_format}"
    yield f"stop tokens: {stops}"
    for kind, fault in template.report.items():
        yield f"{kind}: {'exact' if fault is None else f'REFUSED: {fault}'}"


def _aligned(values: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, values), default=0)
    return (f"{name:{width}}  {value}" for name, value in values.items())


def _section(title: str, lines: list[str] | Iterator[str], console: Console) -> None:
    _heading(f"-- {title} --", console)
    for line in lines:
        _line(printable(line), "", console)
    console.print()


def _heading(text: str, console: Console) -> None:
    _line(one_line(text), "bold", console)


def _line(text: str, style: str, console: Console) -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True, emoji=False)
