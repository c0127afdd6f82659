"""The 100 inputs with the scores that slime's own reward functions gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retrain.reward.hub.cases import Case

FILE = Path(__file__).parents[3].parent / "shared" / "data" / "reward_cases.json"

needs_reward_cases = pytest.mark.skipif(
    not FILE.is_file(), reason="the cases are not part of the repository: ../shared/data"
)


def reward_cases() -> list[dict[str, Any]]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else []


def case_in(row: dict[str, Any]) -> Case:
    return Case(row["response"], row["label"], row["metadata"])


def outcome_of(score: Any, case: Case, **params: Any) -> Any:
    """The score, or what was raised as "Type: message"."""
    try:
        return score(case, **params)
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        return f"{type(error).__name__}: {error}"
