"""Scores many cases with a service, and keeps what failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case
from retrain.reward.hub.marking import Mark, Marks
from retrain.reward.hub.service_rewards import ServiceReward


async def mark_by_service(reward: ServiceReward, cases: Sequence[Case]) -> Marks:
    """Score cases, as many at once as the service may be asked; its connections are closed then.

    Args:
        reward: The service.
        cases: The cases.
    """
    began = time.perf_counter()
    try:
        marks = await asyncio.gather(*(_mark(reward, case) for case in cases))
    finally:
        await reward.service.aclose()
    return Marks(tuple(marks), time.perf_counter() - began, reward.service.tally.totals())


async def _mark(reward: ServiceReward, case: Case) -> Mark:
    try:
        score = await reward.score(case)
    except RewardFailure as failure:
        return Mark(failure=str(failure))
    return Mark(score, score)
