"""What the dry run finds out about each stage, beyond the framework's own plan."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
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
        plan: What the framework will receive.
        problems: What cannot be honoured, and warnings: the plan's, and what was found here.
        template: The chat template; None where it cannot be loaded.
        preview: One episode; None where none can be played.
        composition: The bridges; None where they cannot be made.
    """

    name: str
    plan: Plan
    problems: tuple[Problem, ...]
    template: TemplateFacts | None = None
    preview: Preview | None = None
    composition: Composition | None = field(default=None, repr=False)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stop the run."""
        from backends.base import Severity

        return tuple(p for p in self.problems if p.severity is Severity.ERROR)


def inspect_stage(stage: StagePlan) -> Inspection:
    """Make the bridges of a stage and play one episode without a model."""
    from backends.base import Problem, Severity
    from retrain.compose import compose

    plan = stage.plan
    try:
        composition = compose(plan.config)
    except RetrainError as error:
        return Inspection(stage.name, plan, (*plan.problems, Problem("", str(error))))
    template = TemplateFacts.of(composition.renderer)
    warned = tuple(
        Problem("rendering", text, Severity.WARNING) for text in composition.renderer.warnings
    )
    preview, found = _preview(composition)
    problems = (*plan.problems, *warned, *found)
    return Inspection(stage.name, plan, problems, template, preview, composition)


def require_runnable(inspections: tuple[Inspection, ...]) -> None:
    """Refuse a run with an error in any stage.

    Raises:
        ConfigError: Listing every error.
    """
    lines = [
        f"stage {found.name}: {problem}" if found.name else str(problem)
        for found in inspections
        for problem in found.errors
    ]
    if lines:
        raise ConfigError("\n".join(lines))


def _preview(composition: Composition) -> tuple[Preview | None, tuple[Problem, ...]]:
    from backends.base import Problem
    from retrain.compose import make_tasks, preview

    try:
        tasks = make_tasks(composition.config)
        played = asyncio.run(preview(composition, tasks[0]))
        if composition.config.evaluation is not None:
            make_tasks(composition.config, composition.config.evaluation.prompt_source)
    except RetrainError as error:
        return None, (Problem("", str(error)),)
    return played, _episode_problems(played)


def _episode_problems(played: Preview) -> tuple[Problem, ...]:
    """A failure that no model could avoid is an error; what a scripted turn caused is a warning."""
    from backends.base import Problem, Severity

    episode = played.trajectory
    if episode is None or episode.error is None:
        return ()
    certain = not episode.turns or episode.error.boundary is Boundary.RENDERING
    severity = Severity.ERROR if certain else Severity.WARNING
    reason = f"the episode of task {episode.task.id!r} fails: {episode.error.reason}"
    return (Problem(str(episode.error.boundary), reason, severity),)
