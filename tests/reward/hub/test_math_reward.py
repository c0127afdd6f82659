from __future__ import annotations

import asyncio
import threading

import pytest

from retrain.errors import RewardFailure
from retrain.reward.hub.boxed import last_boxed
from retrain.reward.hub.cases import Case
from retrain.reward.hub.math_answer import deepscaler, math

pytest.importorskip("math_verify")


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        (r"\frac12", "0.5"),
        (r"\dfrac{3}{4}", "3/4"),
        ("(x+1)^2", "x^2+2x+1"),
        ("4/2", "2"),
        (r"\sqrt{4}", "2"),
        ("10^3", "1000"),
        ("0", 0),
        ("3", 3.0),
        (r"2\pi", r"\pi\cdot 2"),
        (r"\text{Yes}", "yes"),
        (r"\text{(B)}", "B"),
        (r"\{2,1\}", r"\{1,2\}"),
        ("7", r"\boxed{7}"),
    ],
)
def test_equal_mathematics_is_right(answer: str, label: object) -> None:
    assert math(Case(f"So \\boxed{{{answer}}}.", label)) == 1.0


@pytest.mark.parametrize(
    ("response", "label"),
    [
        (r"\boxed{(2,1)}", "(1,2)"),
        (r"\boxed{\pi}", "3.14159"),
        (r"\boxed{1} no, \boxed{2}", "1"),
        (r"\boxed{\frac{1}{3}", r"\frac{1}{3}"),
        (r"\boxed{}", "0"),
        ("The answer is 42", "42"),
        ("", "1"),
    ],
)
def test_another_answer_or_none_is_wrong(response: str, label: object) -> None:
    assert math(Case(response, label)) == 0.0


def test_an_answer_without_a_box_is_read_where_that_is_asked_for() -> None:
    case = Case("The answer is $\\frac{1}{2}$.", "0.5")
    assert math(case) == 0.0
    assert math(case, answer="anywhere") == 1.0


@pytest.mark.parametrize("label", [None, "", " ", True, [1], {"a": 1}, float("nan")])
def test_a_label_that_is_missing_or_of_a_wrong_kind_is_a_failure(label: object) -> None:
    with pytest.raises(RewardFailure, match="math needs a label that is text or a number"):
        math(Case(r"\boxed{1}", label))


def test_an_answer_too_long_to_compare_is_a_failure() -> None:
    with pytest.raises(RewardFailure, match="at most 4,000"):
        math(Case("\\boxed{" + "1+" * 5000 + "1}", "1"))


@pytest.mark.parametrize("bomb", ["9^{9^{9^{9^{9}}}}", "((((3!)!)!)!)!", "10^{10^{10}}!"])
def test_a_bomb_costs_its_time_and_the_next_answer_is_scored(bomb: str) -> None:
    try:
        score = math(Case(f"\\boxed{{{bomb}}}", "2"), seconds=0.5)
    except RewardFailure:
        score = 0.0
    assert score == 0.0
    assert math(Case(r"\boxed{2}", "2")) == 1.0


async def test_answers_are_scored_off_the_main_thread() -> None:
    threads = set()

    def score(number: int) -> float:
        threads.add(threading.current_thread())
        return math(Case(f"\\boxed{{{number}/2}}", str(number / 2)))

    assert await asyncio.gather(*(asyncio.to_thread(score, n) for n in range(20))) == [1.0] * 20
    assert threading.main_thread() not in threads


def test_reasoning_must_be_closed_for_deepscaler() -> None:
    assert deepscaler(Case(r"<think>\boxed{1}</think>\boxed{2}", "2")) == 1.0
    assert deepscaler(Case(r"<think>\boxed{2}</think>\boxed{1}", "2")) == 0.0
    assert deepscaler(Case(r"<think>\boxed{2}", "2")) == 0.0


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (r"\boxed{1}", "1"),
        (r"\boxed {1}", "1"),
        (r"\fbox{ 1 }", "1"),
        (r"\boxed 7.", "7"),
        (r"a \boxed{\frac{1}{2}} b", r"\frac{1}{2}"),
        (r"\boxed{\{1\}}", r"\{1\}"),
        (r"\boxed{\text{a \} b}}", r"\text{a \} b}"),
        (r"\boxed{1} \boxed{2", None),
        ("no box", None),
        ("\\boxed", None),
    ],
)
def test_the_last_closed_box_is_found(text: str, inside: str | None) -> None:
    assert last_boxed(text) == inside
