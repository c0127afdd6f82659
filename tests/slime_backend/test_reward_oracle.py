"""The hub's `compat="slime"` beside slime's own reward functions, on inputs drawn at random."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slime_source import importable_slime

from retrain.reward.hub.cases import Case
from retrain.reward.hub.pool import close_pools
from retrain.reward.hub.scoring import make_scorer

pytestmark = pytest.mark.slime

_ATOMS = (
    *("1", "2", "12", "0", "0.5", "1.50", ".5", "1,234", "1/2", "2/4", "4/2", "x", "y", "-", "+"),
    *("*", "^2", "^{2}", "(", ")", "[", "]", ",", ", ", "=", "x=", "\\frac12", "\\frac{1}{2}"),
    *("\\dfrac{x}{2}", "\\sqrt3", "\\sqrt{x}", "\\sqrt", "\\frac", "\\pi", "\\infty", "\\cup "),
    *("\\text{cm}", "\\text{ cm}", "\\text{A}", " cm", " degrees", "\\%", "%", "$", "\\$", " "),
    *("^\\circ", "^{\\circ}", "\\left(", "\\right)", "\\cdot ", "{", "}", "or ", " and ", "sin"),
)
_DAPO = (
    *("42", "0", "1,234", "-3", "$", "\\boxed{", "}", "{", "\\text{", "\\frac12", "\\sqrt3", "="),
    *("a ", "an ", "cm", "hours", " degrees", "^\\circ", "\\$", "\\ ", "{,}", '"', ".", ".$", ","),
    *("\\text{}^2", "\\text{and}", "\n", " ", "Answer:", "Answer :", "frac1 2", "mbox", "units"),
)
_GPQA = (
    *("answer", "option", "choice", "Final answer", " is correct", "is", "the", ":", " ", ". "),
    *("\n", " B", " C", "A", "D", "E", "b", "(B)", "**B**", "J", "K", "</think>", "Paris", "rome"),
)
_F1 = ("a", "the", "yes", "no", "cat", "Dog", "it's", "x-y", " ", "\n", ".", "!", "7", "_")


def joined(pieces: tuple[str, ...], most: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=most).map("".join)


_MATHS = joined(_ATOMS, 5)
_METADATA = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.sampled_from([["Paris", "Rome"], {"A": "x", "B": "Rome"}, [], None]),
        "correct_letter": st.sampled_from(["A", "b", " C", "(B)", "", 1, None]),
        "correct_answer": st.sampled_from(["Paris", "B", 5, "", None]),
        "valid_letters": st.sampled_from([["A", "B"], "ABC", ["b", "K"], [], None]),
    },
)


@pytest.fixture(scope="module", autouse=True)
def slime_is_importable() -> Iterator[None]:
    with importable_slime():
        yield
    close_pools()


def theirs(name: str, case: Case) -> Any:
    from slime.rollout.rm_hub import async_rm
    from slime.utils.types import Sample

    args = SimpleNamespace(rm_type=name, custom_rm_path=None, reward_key=None, rm_url=None)
    metadata = copy.deepcopy(case.metadata)
    sample = Sample(prompt="", response=case.response, label=case.label, metadata=metadata)
    try:
        return asyncio.run(async_rm(args, sample))
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        return type(error).__name__


def ours(name: str, case: Case) -> Any:
    try:
        return make_scorer(name)(case, compat="slime")
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        return type(error).__name__


def same(name: str, case: Case) -> None:
    assert ours(name, case) == theirs(name, case), (name, case)


@settings(max_examples=600, deadline=None)
@given(answer=_MATHS, label=_MATHS, equal=st.booleans(), boxed=st.booleans())
def test_math_gives_slimes_scores(answer: str, label: str, equal: bool, boxed: bool) -> None:
    wanted = f"{answer}+0" if equal else label
    wanted = f"\\boxed{{{wanted}}}" if boxed else wanted
    same("math", Case(f"\\boxed{{{answer}}}", wanted))
    same("deepscaler", Case(f"<think></think>\\boxed{{{answer}}}", wanted))


@settings(max_examples=300, deadline=None)
@given(
    response=joined(("</think>", "###Response", "\\boxed{3}", "\\boxed{", "}", "4", " "), 6),
    label=st.sampled_from(["3", "\\boxed{3}", "", "\\boxed", 3, 3.0, 0, True, None, [3]]),
)
def test_deepscaler_reads_the_reply_that_slime_reads(response: str, label: Any) -> None:
    same("deepscaler", Case(response, label))
    same("math", Case(response, label))
    same("boxed_math", Case(response, label))


@settings(max_examples=600, deadline=None)
@given(
    answer=joined(_DAPO, 8),
    label=st.sampled_from(["42", "0", "-3", "1234", "3.5", "abc", "", 42, 7.5, None, "$42$"]),
)
def test_dapo_gives_slimes_scores(answer: str, label: Any) -> None:
    same("dapo", Case(f"Answer: {answer}", label))
    same("boxed_dapo", Case(f"\\boxed{{Answer: {answer}}}", label))


@settings(max_examples=600, deadline=None)
@given(
    response=joined(_GPQA, 8),
    label=st.sampled_from(["A", "B", "(B)", "b ", "K", "Paris", 0, 1, -1, 12, True, 1.7, None, ""]),
    metadata=_METADATA,
)
def test_gpqa_gives_slimes_scores(response: str, label: Any, metadata: dict[str, Any]) -> None:
    same("gpqa", Case(response, label, metadata))


@settings(max_examples=400, deadline=None)
@given(response=joined(_F1, 8) | st.none(), label=joined(_F1, 4) | st.sampled_from([None, 7]))
def test_f1_gives_slimes_scores(response: str | None, label: Any) -> None:
    same("f1", Case(response, label))
    same("boxed_f1", Case(None if response is None else f"\\boxed{{{response}}}", label))
