"""The work that the multi-turn benchmark compares is the same on both sides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def modules() -> Iterator[tuple[Any, Any, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import multiturn_model
        import multiturn_workload
        import trl_multiturn

        yield multiturn_workload, multiturn_model, trl_multiturn


@pytest.fixture(scope="module")
def work(modules: tuple[Any, Any, Any]) -> Any:
    workload, _, _ = modules
    return workload.make_workload(workload.Shape(4, (1, 3), (2, 6), 4, 64, 1))


def test_episodes_differ_in_turns_and_lengths(work: Any) -> None:
    assert len(set(work.turns)) > 1
    assert len(set(work.sampled)) == len(work.rows) == 4
    assert all(1 <= turns <= 3 for turns in work.turns)


def test_both_loops_write_the_tokens_of_the_workload(
    modules: tuple[Any, Any, Any], work: Any, tmp_path: Path
) -> None:
    _, model, benchmark = modules
    with model.forced(work.table):
        ours = benchmark.RetrainLoop(work)
        try:
            theirs, mine = benchmark.TRLLoop(work, str(tmp_path)).play(), ours.play()
        finally:
            ours.close()

    benchmark.require_same(work, theirs, mine)
    other = dataclasses.replace(mine, sampled=[mask[:-1] for mask in mine.sampled])
    with pytest.raises(RuntimeError, match="differ in what the model wrote"):
        benchmark.require_same(work, theirs, other)
