"""Math scores per second: the hub's `math` against math-verify called directly, and against slime.

The same answers, drawn once from templates with many spellings, are scored by each side in turns;
the clock runs once its processes are up. A ratio above 1 is in retrain's favour.

- math-verify directly: `parse` and `verify` with their own alarms, one process, its main thread.
  That is what a script does, and what cannot be done inside an event loop or a thread.
- slime: its own `math` reward, awaited one after another on one event loop, as its rollout does;
  against `compat="slime"`, which gives the same scores. It needs slime and what slime imports.

    [PYTHONPATH=SLIME] python benchmarks/rewards.py [--answers 2000] [--workers 8] [--repeats 3]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

from retrain.reward.hub import pool as pools
from retrain.reward.hub.cases import Case
from retrain.reward.hub.math_answer import math
from retrain.reward.hub.pool import close_pools

Score = Callable[[Sequence[Case]], list[float]]


def make_cases(count: int) -> list[Case]:
    """Answers in many spellings, about half of them right."""
    draw = random.Random(7)
    cases = []
    for _ in range(count):
        a, b = draw.randint(2, 99), draw.randint(2, 99)
        label, same = draw.choice(
            [
                (str(a * b), f"{a}\\cdot{b}"),
                (f"\\frac{{{a}}}{{{b}}}", f"{a}/{b}"),
                (f"x^2+{a + b}x+{a * b}", f"(x+{a})(x+{b})"),
                (f"({a},{b})", f"\\left({a}, {b}\\right)"),
                (f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{b}}}\\cdot {a}"),
                (str(a), f"x={a}"),
            ]
        )
        answer = same if draw.random() < 0.5 else f"{same}+{a}"
        cases.append(Case(f"So it is \\boxed{{{answer}}}.", label))
    return cases


def by_hub(cases: Sequence[Case], *, workers: int, compat: str | None) -> list[float]:
    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(partial(math, compat=compat), cases))


def by_math_verify(cases: Sequence[Case]) -> list[float]:
    from math_verify import parse, verify

    return [float(verify(parse(f"${c.label}$"), parse(c.response))) for c in cases]


def by_slime(cases: Sequence[Case]) -> list[float]:
    from slime.rollout.rm_hub import async_rm
    from slime.utils.types import Sample

    args = SimpleNamespace(rm_type="math", custom_rm_path=None, reward_key=None, rm_url=None)

    async def score() -> list[float]:
        samples = [Sample(prompt="", response=c.response, label=c.label) for c in cases]
        return [await async_rm(args, sample) for sample in samples]

    return asyncio.run(score())


def rate(score: Score, cases: Sequence[Case]) -> float:
    began = time.perf_counter()
    score(cases)
    return len(cases) / (time.perf_counter() - began)


def compare(name: str, ours: Score, theirs: Score, cases: Sequence[Case], repeats: int) -> None:
    agreed = sum(map(float.__eq__, map(float, ours(cases)), map(float, theirs(cases))))
    ratios = [rate(ours, cases) / rate(theirs, cases) for _ in range(repeats)]
    print(
        f"| {name} | {statistics.median(ratios):.2f} x | {min(ratios):.2f} to {max(ratios):.2f} | "
        f"{agreed} of {len(cases)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    cases = make_cases(given.answers)
    pools.available_cpus = lambda: given.workers
    print(f"{given.workers} workers on {os.cpu_count()} CPUs, {given.answers} answers")
    print("| scores per second | ratio | range | same scores |\n| --- | --- | --- | --- |")
    ours = partial(by_hub, workers=given.workers, compat=None)
    compare("math / math-verify directly", ours, by_math_verify, cases, given.repeats)
    try:
        import slime.rollout.rm_hub  # noqa: F401
    except ImportError as error:
        print(f"slime's own function is left out: {error}")
    else:
        ours = partial(by_hub, workers=given.workers, compat="slime")
        compare("compat=slime / slime's math", ours, by_slime, cases, given.repeats)
    close_pools()


if __name__ == "__main__":
    main()
