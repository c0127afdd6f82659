"""The question counter, and who asks about exactly one pair."""

from __future__ import annotations

import pytest

from examples.matching.names import PAPERS, REVIEWERS, Names
from examples.matching.questions import Questions, asked_pair, count_questions, total

NAMES = Names(REVIEWERS, PAPERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ava on BLEU?", Questions(asked=1, marks=1, pairs=1)),
        ("What is your score for Ava on BLEU", Questions(1, 0, 1, 1, 1)),
        ("Tell me Noah's number for SWAG.", Questions(1, 0, 0, 2, 1)),
        ("Sofia is good at GloVe, I know who.", Questions(words=1)),
        ("Who is best for GLUE? And for QuAC?", Questions(2, 2, 1, 0, 0)),
        ("Ava on BLEU? Daniel on Electra?", Questions(2, 2, 0, 0, 2)),
        ("I like it", Questions()),
    ],
)
def test_questions_are_counted(text: str, expected: Questions) -> None:
    assert count_questions(text, NAMES) == expected


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("Ava on BLEU?", (0, 0)),
        ("what do you have for bleu with Ava Li", (0, 0)),
        ("Wilson, SWAG?", (7, 7)),
        ("Ava on BLEU", None),
        ("Ava on BLEU or GLUE?", None),
        ("Ava or Noah on BLEU?", None),
        ("Who should take BLEU?", None),
    ],
)
def test_a_question_about_one_pair_is_told_apart(text: str, pair: tuple[int, int] | None) -> None:
    assert asked_pair(text, NAMES) == pair


def test_counts_add_up() -> None:
    assert total([Questions(1, 2), Questions(3, 0, 1)]) == Questions(4, 2, 1)
