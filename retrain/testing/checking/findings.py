"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Outcome(StrEnum):
    """How a check ended."""

    HELD = "held"
    BROKEN = "broken"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, or one reason not to look.

    Attributes:
        text: In plain words: what is wrong, what was expected, what came.
        scripts: The scripted episodes that show it; none where the check plays its own.
        agents: Of several agents, those whose episodes show it.
    """

    text: str
    scripts: tuple[str, ...]
    agents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of an environment.

    Attributes:
        name: What is checked ("one seed gives one episode").
        promise: Why, in a sentence.
        outcome: Whether it holds.
        findings: What was found where it does not hold, or why it was not looked at.
    """

    name: str
    promise: str
    outcome: Outcome
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How one test ended.

    Attributes:
        test: Its name, without the script.
        script: The script that it played; "" for none.
        outcome: Whether what it promises holds.
        text: What is wrong, or why it was skipped.
    """

    test: str
    script: str
    outcome: Outcome
    text: str = ""


def checks(promises: Mapping[str, str], ended: Iterable[Ended]) -> tuple[Check, ...]:
    """Gather the tests of all scripts into one check for each promise, in the suite's order.

    Args:
        promises: Every test's name and what it promises.
        ended: How the tests ended.
    """
    known = list(ended)
    return tuple(
        _check(name, promise, [one for one in known if one.test == name])
        for name, promise in promises.items()
    )


def of_all_agents(found: Mapping[str, Sequence[Check]]) -> tuple[Check, ...]:
    """Gather what was found in each agent's episodes into one check for each promise.

    A promise holds where no agent's episodes break it; which ones could not be looked at is told.

    Args:
        found: By agent, the same promises in the same order.
    """
    agents = tuple(found)
    together = zip(*found.values(), strict=True)
    return tuple(_gathered(dict(zip(agents, one, strict=True))) for one in together)


def _gathered(found: Mapping[str, Check]) -> Check:
    outcomes = {check.outcome for check in found.values()}
    worst = next(o for o in (Outcome.BROKEN, Outcome.HELD, Outcome.SKIPPED) if o in outcomes)
    whose: dict[Finding, list[str]] = {}
    for agent, check in sorted(found.items(), key=lambda item: item[1].outcome is not worst):
        for finding in check.findings:
            whose.setdefault(finding, []).append(agent)
    findings = tuple(replace(one, agents=tuple(agents)) for one, agents in whose.items())
    any_of_them = next(iter(found.values()))
    return replace(any_of_them, outcome=worst, findings=findings)


def _check(name: str, promise: str, ended: list[Ended]) -> Check:
    outcomes = {one.outcome for one in ended}
    worst = Outcome.BROKEN if Outcome.BROKEN in outcomes else Outcome.HELD
    if not outcomes & {Outcome.BROKEN, Outcome.HELD}:
        worst = Outcome.SKIPPED
    told: dict[str, list[str]] = {}
    for one in ended:
        if one.outcome is worst and worst is not Outcome.HELD:
            told.setdefault(_without(one.script, one.text), []).append(one.script)
    findings = tuple(Finding(text, tuple(filter(None, names))) for text, names in told.items())
    return Check(name.removeprefix("test_").replace("_", " "), promise, worst, findings)


def _without(script: str, text: str) -> str:
    """A text that does not name its script, so that equal faults are told once."""
    return text.replace(f" {script!r}", "").replace(f"{script!r} ", "")
