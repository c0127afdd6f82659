"""Scores many cases with a reward model, and keeps what failed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from retrain.reward.hub.cases import Case
from retrain.reward.hub.marking import Mark, Marks
from retrain.reward.hub.reward_model import ModelReward

_UNSCORED = "no score: a prompt is missing, or the model's chat template does not allow it"


def mark_by_model(reward: ModelReward, cases: Sequence[Case]) -> Marks:
    """Score cases in batches, and free the model.

    Args:
        reward: The model.
        cases: The cases, each with a prompt.
    """
    try:
        reward.score(())  # load it before the clock starts
        began = time.perf_counter()
        scores = reward.score_cases(cases)
        seconds = time.perf_counter() - began
    finally:
        reward.close()
    marks = (Mark(failure=_UNSCORED) if math.isnan(s) else Mark(s, s) for s in scores)
    return Marks(tuple(marks), seconds, reward.totals())
