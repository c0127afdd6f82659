from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reward_cases import case_in, needs_reward_cases, outcome_of, reward_cases

from retrain.reward.hub.catalogue import SLIME
from retrain.reward.hub.scoring import make_scorer

PAGE = Path(__file__).parents[3] / "docs" / "rewards.md"
ROWS = reward_cases()


@needs_reward_cases
def test_there_are_a_hundred_cases_over_every_rule_that_slime_has() -> None:
    assert len(ROWS) == 100
    assert {row["type"].removeprefix("boxed_") for row in ROWS} == SLIME


@needs_reward_cases
@pytest.mark.parametrize("at", range(len(ROWS)))
def test_compat_slime_gives_what_slime_gave(at: int) -> None:
    row = ROWS[at]
    expected = f"{row['raises']}: {row['message']}" if "raises" in row else row["score"]
    score = make_scorer(row["type"])
    assert outcome_of(score, case_in(row), compat="slime") == expected


def differing_rows() -> list[str]:
    """The rows of the page's table: where the default mode and slime's do not agree."""
    found = []
    for at, row in enumerate(ROWS):
        theirs = row["raises"] if "raises" in row else _reward(row["score"])
        given = outcome_of(make_scorer(row["type"]), case_in(row))
        ours = "RewardFailure" if isinstance(given, str) else _reward(given)
        if ours != theirs:
            found.append(f"| {at} | {row['type']} | {row['note']} | {theirs} | {ours} |")
    return found


def _reward(score: Any) -> str:
    return f"{score['score'] if isinstance(score, dict) else score:g}"


@needs_reward_cases
def test_the_page_lists_every_case_on_which_the_default_mode_differs() -> None:
    listed = [
        line.rsplit("|", 2)[0] + "|"
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and line.split("|")[1].strip().isdigit()
    ]
    assert listed == differing_rows()
