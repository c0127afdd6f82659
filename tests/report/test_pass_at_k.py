from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest
from byte_episodes import episode, group, turn
from hypothesis import given
from hypothesis import strategies as st

from retrain.report.batch_metrics import batch_metrics
from retrain.report.evaluation import evaluate
from retrain.report.pass_at_k import pass_at_k, reported_ks
from retrain.sample import Status
from retrain.types import Group, StopReason, Trajectory


@st.composite
def counts(draw: st.DrawFn, most: int = 9) -> tuple[int, int, int]:
    samples = draw(st.integers(1, most))
    return samples, draw(st.integers(0, samples)), draw(st.integers(1, samples))


@given(counts())
def test_it_is_the_share_of_subsets_that_hold_a_success(case: tuple[int, int, int]) -> None:
    samples, successes, k = case
    subsets = list(combinations(range(samples), k))
    held = sum(any(index < successes for index in subset) for subset in subsets)
    assert pass_at_k(*case) == held / len(subsets)


@given(st.integers(1, 8), st.fractions(0, 1, max_denominator=7), st.data())
def test_it_is_unbiased(samples: int, chance: Fraction, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, samples))
    expected = sum(
        comb(samples, c)
        * chance**c
        * (1 - chance) ** (samples - c)
        * Fraction(pass_at_k(samples, c, k))
        for c in range(samples + 1)
    )
    assert float(expected) == pytest.approx(float(1 - (1 - chance) ** k), abs=1e-12)


@given(counts(most=3000))
def test_more_samples_or_more_successes_never_lower_it(case: tuple[int, int, int]) -> None:
    samples, successes, k = case
    value = pass_at_k(samples, successes, k)
    assert 0.0 <= value <= 1.0
    assert pass_at_k(samples, successes, 1) == successes / samples
    assert (value == 0.0) == (successes == 0)
    if k < samples:
        assert pass_at_k(samples, successes, k + 1) >= value
    if successes < samples:
        assert pass_at_k(samples, successes + 1, k) >= value


@pytest.mark.parametrize("case", [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5)])
def test_impossible_counts_are_refused(case: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"samples"):
        pass_at_k(*case)


@pytest.mark.parametrize(
    ("samples", "ks"),
    [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8)), (9, (1, 2, 4, 8, 9))],
)
def test_powers_of_two_and_all_samples_are_reported(samples: int, ks: tuple[int, ...]) -> None:
    assert reported_ks(samples) == ks


def played(task_id: str, *outcomes: bool | None) -> Group:
    return group(
        *(
            episode(reward=None, status=Status.FAILED, task_id=task_id)
            if won is None
            else episode(turn("a", info={"success": won}), reward=float(won), task_id=task_id)
            for won in outcomes
        )
    )


def test_every_task_counts_once_and_the_error_is_between_tasks() -> None:
    evaluation = evaluate([played("a", True, True), played("b", True, False)])
    assert evaluation.success is not None and evaluation.reward == evaluation.success
    assert evaluation.success.mean == 0.75
    assert evaluation.success.error == pytest.approx((0.125**0.5) / 2**0.5)
    assert {k: e.mean for k, e in evaluation.pass_at.items()} == {1: 0.75, 2: 1.0}
    assert [task.task_id for task in evaluation.tasks] == ["b", "a"]


def test_failed_episodes_are_no_attempts_and_their_task_leaves_the_k_it_cannot_say() -> None:
    evaluation = evaluate([played("a", True, None), played("b", False, False), played("c", None)])
    assert evaluation.failed == 2 and evaluation.episodes == 5
    assert evaluation.failures == {"environment: step: KeyError: 'x'": 2}
    assert evaluation.pass_at[1].mean == 0.5 and evaluation.pass_at[1].tasks == 2
    assert evaluation.pass_at[2].mean == 0.0 and evaluation.pass_at[2].tasks == 1
    assert [task.task_id for task in evaluation.tasks] == ["c", "b", "a"]


def test_one_task_has_no_standard_error_and_no_task_no_estimate() -> None:
    only = evaluate([played("a", True, False)])
    assert only.success is not None and only.success.error is None
    none = evaluate([played("a", None)])
    assert (none.reward, none.success, none.pass_at) == (None, None, {})


@pytest.mark.parametrize(
    ("threshold", "success"), [(1.0, 0.5), (0.4, 1.0), (2.0, 0.0)], ids=["full", "part", "beyond"]
)
def test_without_a_report_of_success_the_reward_decides(threshold: float, success: float) -> None:
    silent = group(episode(turn("a"), reward=1.0), episode(turn("a"), reward=0.5))
    evaluation = evaluate([silent], threshold=threshold)
    assert evaluation.success is not None and evaluation.success.mean == success


def test_an_episode_cut_short_before_the_report_is_not_solved() -> None:
    def cut() -> Trajectory:
        limit = {"status": Status.TRUNCATED, "stop_reason": StopReason.MAX_TURNS}
        return episode(turn("a"), reward=5.0, **limit)  # type: ignore[arg-type]

    reporting = group(episode(turn("a", info={"success": True})), cut())
    evaluation = evaluate([reporting])
    assert evaluation.success is not None and evaluation.success.mean == 0.5
    silent = evaluate([group(cut())])
    assert silent.success is not None and silent.success.mean == 1.0


def test_a_success_whose_reward_is_not_known_counts() -> None:
    evaluation = evaluate([group(episode(turn("a", info={"success": 1}), reward=None))])
    assert evaluation.reward is None
    assert evaluation.success is not None and evaluation.success.mean == 1.0


def test_an_evaluation_with_several_samples_has_pass_at_k_metrics() -> None:
    groups = [played("a", True, False, False, False), played("b", False, False, False, False)]
    metrics = batch_metrics(groups, prefix="eval/")
    passes = {name: value for name, value in metrics.items() if "pass@" in name}
    assert passes == {"eval/pass@1": 0.125, "eval/pass@2": 0.25, "eval/pass@4": 0.5}
    assert metrics["eval/success"] == metrics["eval/pass@1"]
    for others in (batch_metrics(groups), batch_metrics([played("a", True)], prefix="eval/")):
        assert not any("pass@" in name for name in others)
