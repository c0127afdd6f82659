"""Environments, and what was found in one, as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrain.environment.listing import KnownEnvironment
    from retrain.testing.checking import Check


def checks_document(environment: str, found: Sequence[Check]) -> dict[str, Any]:
    """What a check found."""
    return {
        "environment": environment,
        "held": all(check.outcome != "broken" for check in found),
        "checks": [
            {
                "name": check.name,
                "promise": check.promise,
                "outcome": str(check.outcome),
                "findings": [
                    {
                        "text": finding.text,
                        "scripts": list(finding.scripts),
                        "agents": list(finding.agents),
                    }
                    for finding in check.findings
                ],
            }
            for check in found
        ],
    }


def environments_document(known: Sequence[KnownEnvironment]) -> list[dict[str, Any]]:
    """The names that `environment.type` takes."""
    return [
        {
            "name": one.name,
            "summary": one.summary,
            "arguments": list(one.arguments),
            "missing": one.missing,
        }
        for one in known
    ]
