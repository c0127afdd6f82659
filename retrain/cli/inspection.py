"""What the dry run finds out about each stage, beyond the framework's own plan."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from retrain.errors import Boundary, ConfigError, RetrainError

if TYPE_CHECKING:
    from backends.base import Plan, Problem
    from retrain.compose import Composition, Preview
    from retrain.rendering import DeltaRenderer
    from retrain.training import StagePlan


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """What the chat template and the tokenizer are found to do.

    Attributes:
        tool_format: How tool calls are written and read.
        stop_tokens: The tokens that end a turn, by id, with their text.
        report: The self-check: each kind of reply with the template's fault, None where exact.
    """

    tool_format: str
    stop_tokens: Mapping[int, str]
    report: Mapping[str, str | None]

    @classmethod
    def of(cls, renderer: DeltaRenderer) -> TemplateFacts:
        """Ask a renderer."""
        stops = {token: renderer.decode([token]) for token in sorted(renderer.stop_token_ids)}
        return cls(renderer.tool_format, stops, renderer.check_report)


@dataclass(frozen=True, slots=True)
class Inspection:
    """One stage of a dry run.

    Attributes:
        name: The stage's name; "" for a run without stages.
        plan: What the framework will receive; its problems include those that were found here.
        template: The chat template; None where it cannot be loaded.
        preview: One episode; None where none can be played.
        composition: The bridges; None where they cannot be made.
    """

    name: str
    plan: Plan
    template: TemplateFacts | None = None
    preview: Preview | None = None
    composition: Composition | None = None


def inspect_stage(stage: StagePlan) -> Inspection:
    """Make the bridges of a stage and play one episode without a model."""
    from retrain.compose import compose, make_problem
    from retrain.loggers.publishing import require_loggers

    try:
        require_loggers(stage.plan.config)
        composition = compose(stage.plan.config)
    except RetrainError as error:
        return Inspection(stage.name, _with(stage.plan, make_problem("", str(error))))
    renderer = composition.renderer
    warned = [make_problem("rendering", text, stops=False) for text in renderer.warnings]
    preview, found = _preview(composition)
    plan = _with(stage.plan, *warned, *found)
    return Inspection(stage.name, plan, TemplateFacts.of(renderer), preview, composition)


def require_runnable(inspections: Iterable[Inspection]) -> None:
    """Refuse a run with an error in any stage.

    Raises:
        ConfigError: Listing every error.
    """
    stages: dict[str, dict[str, None]] = {}
    for found in inspections:
        for problem in found.plan.errors:
            stages.setdefault(str(problem), {})[found.name] = None
    if stages:
        raise ConfigError("\n".join(f"{_of(names)}{text}" for text, names in stages.items()))


def _of(stages: Iterable[str]) -> str:
    names = [name for name in stages if name]
    return f"stage{'s' * (len(names) > 1)} {', '.join(names)}: " if names else ""


def _with(plan: Plan, *problems: Problem) -> Plan:
    known = {str(problem) for problem in plan.problems}
    new = (problem for problem in problems if str(problem) not in known)
    return replace(plan, problems=(*plan.problems, *new))


def _preview(composition: Composition) -> tuple[Preview | None, list[Problem]]:
    from retrain.compose import make_problem, make_tasks, preview

    config = composition.config
    try:
        tasks = make_tasks(config)
        if config.evaluation is not None:
            make_tasks(config, config.evaluation.prompt_source)
        played = asyncio.run(preview(composition, tasks[0]))
    except RetrainError as error:
        return None, [make_problem("", str(error))]
    return played, _episode_problems(played)


def _episode_problems(played: Preview) -> list[Problem]:
    """A failure that no model could avoid is an error; what a scripted turn caused is a warning."""
    from retrain.compose import make_problem

    episode = played.trajectory
    if episode is None or episode.error is None:
        return []
    certain = not episode.turns or episode.error.boundary is Boundary.RENDERING
    place = f" ({episode.error.place})" if episode.error.place else ""
    reason = f"the episode of task {episode.task.id!r} fails: {episode.error.reason}{place}"
    return [make_problem(str(episode.error.boundary), reason, stops=certain)]
