"""A dry run for programs: JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrain.cli.collecting import explained_collecting
from retrain.cli.sizes import explained_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.base import Problem
    from retrain.cli.inspection import Inspection
    from retrain.sample import Sample


def plan_document(experiment_name: str, inspections: Sequence[Inspection]) -> dict[str, Any]:
    """What `retrain plan --json` prints; a run without stages has one stage without a name."""
    return {
        "experiment_name": experiment_name,
        "runnable": not any(found.plan.errors for found in inspections),
        "stages": [_stage(found) for found in inspections],
    }


def _stage(found: Inspection) -> dict[str, Any]:
    from retrain.config import redact

    plan = found.plan
    return {
        "name": found.name,
        "backend": plan.backend,
        "entry": plan.entry,
        "arguments": redact(plan.arguments),
        "command": list(plan.command),
        "config": redact(plan.config.model_dump(mode="json")),
        "sizes": dict(plan.sizes),
        "arithmetic": explained_sizes(plan),
        "collecting": explained_collecting(plan),
        "memory": dict(plan.memory),
        "template": _template(found),
        "preview": _preview(found),
        "problems": [_problem(problem) for problem in plan.problems],
    }


def _template(found: Inspection) -> dict[str, Any] | None:
    template = found.template
    if template is None:
        return None
    stops = [{"id": token, "text": text} for token, text in template.stop_tokens.items()]
    return {
        "tool_format": template.tool_format,
        "stop_tokens": stops,
        "faults": dict(template.report),
    }


def _preview(found: Inspection) -> dict[str, Any] | None:
    if found.preview is None:
        return None
    return {
        "turns": "recorded" if found.preview.recorded else "scripted",
        "samples": [_sample(sample, found) for sample in found.preview.samples],
    }


def _sample(sample: Sample, found: Inspection) -> dict[str, Any]:
    assert found.composition is not None
    return {
        "status": str(sample.status),
        "reward": sample.reward,
        "prompt_ids": list(sample.prompt_ids),
        "response_ids": list(sample.response_ids),
        "loss_mask": list(sample.loss_mask),
        "text": found.composition.renderer.decode(sample.tokens),
    }


def _problem(problem: Problem) -> dict[str, str]:
    return {
        "key": problem.key,
        "message": problem.message,
        "severity": str(problem.severity),
    }
