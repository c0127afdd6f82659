"""Scores many cases at once, and keeps what failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

from retrain.errors import RewardFailure, boundary
from retrain.reward.hub.cases import Case, Score, reward_in
from retrain.reward.hub.pool import available_cpus

_BEFORE = 8


@dataclass(frozen=True, slots=True)
class Mark:
    """What one case got.

    Attributes:
        score: What the rule gave; None where it failed.
        reward: The number in it.
        failure: Why there is none; "" where there is one.
    """

    score: Score | None = None
    reward: float | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Marks:
    """What many cases got.

    Attributes:
        marks: One per case, in order.
        seconds: How long scoring took, without starting processes.
        counted: What a service counted meanwhile.
    """

    marks: tuple[Mark, ...]
    seconds: float
    counted: Mapping[str, float] = field(default_factory=dict)

    @property
    def rewards(self) -> list[float]:
        """The rewards of the cases that have one."""
        return [mark.reward for mark in self.marks if mark.reward is not None]


def mark(
    score: Callable[..., Score],
    cases: Sequence[Case],
    params: Mapping[str, Any],
    *,
    reward_key: str = "score",
) -> Marks:
    """Score cases, as many at once as there are CPUs.

    The first few are scored once before the clock starts, so that processes run and libraries are
    imported.

    Args:
        score: The rule.
        cases: The cases.
        params: Its keyword arguments.
        reward_key: Where the number stands in a score of several values.
    """
    one = partial(_mark, partial(score, **params), reward_key)
    for case in cases[:_BEFORE]:
        one(case)
    began = time.perf_counter()
    with ThreadPoolExecutor(available_cpus()) as threads:
        marks = tuple(threads.map(one, cases))
    return Marks(marks, time.perf_counter() - began)


def _mark(score: Callable[..., Score], reward_key: str, case: Case) -> Mark:
    try:
        return asyncio.run(_attributed(score, reward_key, case))
    except RewardFailure as failure:
        return Mark(failure=str(failure))


async def _attributed(score: Callable[..., Score], reward_key: str, case: Case) -> Mark:
    async with boundary(RewardFailure, "the rule raised"):
        given = score(case)
        reward = reward_in(given, reward_key)
        if not isinstance(reward, Real):
            raise RewardFailure(f"{reward_key} is {reward!r}, expected a number")
        return Mark(given, float(reward))
