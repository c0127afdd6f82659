"""Environments, and what was found in one, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrain.report.terminal import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console

    from retrain.environment.listing import KnownEnvironment
    from retrain.testing.checking import Check, Finding

_STYLES = {"held": "green", "broken": "bold red", "skipped": "yellow"}
_INDENT = " " * 9
_FINDINGS = 2
"""More findings than these are counted."""

_NAMED = 4
"""More scripts than these are counted, not named."""


def print_checks(environment: str, found: Sequence[Check], console: Console) -> None:
    """Print every promise and whether it holds, then what is wrong.

    Why an agent of several could not be looked at is told once, not for every promise that holds.
    """
    told: set[tuple[str, tuple[str, ...]]] = set()
    for check in found:
        console.print(f"{check.outcome:<8} ", style=_STYLES[check.outcome], end="", highlight=False)
        _line(check.name, console)
        if check.outcome == "broken":
            _line(f"{_INDENT}{check.promise}", console, "dim")
        for finding in check.findings[:_FINDINGS]:
            if check.outcome != "held" or (finding.text, finding.agents) not in told:
                _print_finding(finding, console)
            told.add((finding.text, finding.agents))
        if len(check.findings) > _FINDINGS:
            _line(f"{_INDENT}… and {len(check.findings) - _FINDINGS} more (--json)", console)
    broken = sum(check.outcome == "broken" for check in found)
    skipped = sum(check.outcome == "skipped" for check in found)
    looked = len(found) - skipped
    verdict = "keeps its promises" if not broken else f"breaks {broken} of its promises"
    console.print()
    _line(f"{environment} {verdict}: {looked} looked at, {skipped} skipped", console, "bold")


def _print_finding(finding: Finding, console: Console) -> None:
    if finding.agents:
        _line(f"{_INDENT}agents: {', '.join(finding.agents)}", console)
    shown = finding.scripts if len(finding.scripts) <= _NAMED else finding.scripts[:_NAMED]
    more = f" and {len(finding.scripts) - len(shown)} more" if shown != finding.scripts else ""
    if shown:
        _line(f"{_INDENT}episodes: {', '.join(shown)}{more}", console)
    for line in printable(finding.text).splitlines():
        _line(f"{_INDENT}{line}", console)


def print_environments(known: Sequence[KnownEnvironment], console: Console) -> None:
    """Print the names that `environment.type` takes."""
    width = max(len(one.name) for one in known)
    for one in known:
        _line(f"{one.name:<{width}}  {one.summary}", console)
        for argument in one.arguments:
            _line(f"{'':<{width}}    {argument}", console, "dim")
        if one.missing is not None:
            _line(f"{'':<{width}}    not installed: {one.missing}", console, "yellow")
    _line("or an import path, package.module:Class", console)


def _line(text: str, console: Console, style: str = "") -> None:
    console.print(
        one_line(text), style=style, markup=False, highlight=False, soft_wrap=True, emoji=False
    )
