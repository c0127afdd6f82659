"""Proposals and tags: what is read, and what is said about what cannot be."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.matching.asker import write_proposal
from examples.matching.messages import IllegalMove, Said, Tag, read_said
from examples.matching.names import PAPERS, REVIEWERS, Names
from examples.matching.proposal import Pair, parse_pairs, parse_proposal

WHOLE = Names(REVIEWERS, PAPERS)
THREE = Names(REVIEWERS[:3], PAPERS[:3])


@given(st.permutations(range(8)), st.permutations(range(8)), st.data())
@settings(max_examples=30)
def test_any_spelling_of_any_assignment_is_read(
    papers: list[int], order: list[int], data: st.DataObject
) -> None:
    lines = []
    for reviewer in order:
        reviewers = [REVIEWERS[reviewer], *REVIEWERS[reviewer].split()]
        titles = [PAPERS[papers[reviewer]], WHOLE.paper(papers[reviewer])]
        sides = [data.draw(st.sampled_from(reviewers)), data.draw(st.sampled_from(titles))]
        sides = data.draw(st.permutations(sides))
        line = data.draw(st.sampled_from([": ", " -> ", " = ", " gets ", "  :  "])).join(sides)
        lines.append(data.draw(st.sampled_from([line, line.upper(), f"- {line.lower()}  "])))
    text = data.draw(st.sampled_from(["\n", "; ", "<br/>&emsp;"])).join(lines)
    assert parse_proposal(text, WHOLE) == tuple(papers)


def test_what_is_written_is_read() -> None:
    for papers in itertools.permutations(range(3)):
        assert parse_proposal(write_proposal(papers, THREE), THREE) == papers


def test_a_word_of_one_title_is_enough() -> None:
    text = "Translation Benchmark: Ava\nthe Discriminators: Nguyen\nWord Representation: patel"
    with pytest.raises(IllegalMove, match="'Translation Benchmark: Ava' names no paper"):
        parse_proposal(text, THREE)
    text = text.replace("Translation Benchmark", "Automatic Evaluation")
    assert parse_proposal(text, THREE) == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Ava: BLEU", "reviewer missing: Daniel, Sofia; paper missing: Electra, GloVe"),
        (
            "Ava: BLEU\nAva: Electra\nSofia: GloVe",
            "reviewer named twice: Ava; reviewer missing: Daniel",
        ),
        (
            "Ava: BLEU\nDaniel: BLEU\nSofia: GloVe",
            "paper named twice: BLEU; paper missing: Electra",
        ),
        ("Ava: BLEU\nBob: Electra\nSofia: GloVe", "'Bob: Electra' names no reviewer"),
        ("Ava: BLEU\nDaniel: Swag\nSofia: GloVe", "'Daniel: Swag' names no paper"),
        ("Bob: SWAG", "'Bob: SWAG' names nobody on this board"),
        ("Ava, Daniel: BLEU, Electra", "cannot be read as pairs"),
        ("", "reviewer missing: Ava, Daniel, Sofia; paper missing: BLEU, Electra, GloVe"),
    ],
)
def test_the_fault_is_named(text: str, fault: str) -> None:
    with pytest.raises(IllegalMove) as raised:
        parse_proposal(text, THREE)
    assert fault in str(raised.value)


def test_a_repeated_pair_and_words_around_it_do_no_harm() -> None:
    text = "I propose this:\nAva: BLEU\nDaniel: Electra\nava - bleu\nSofia: GloVe\nWhat about it?"
    assert parse_proposal(text, THREE) == (0, 1, 2)
    assert parse_pairs("ava bleu, daniel electra", THREE) == [Pair(0, 0), Pair(1, 1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[message] Hi", Said(Tag.MESSAGE, "Hi")),
        ("I think so.\n[ Accept ]", Said(Tag.ACCEPT)),
        ("[REJECT] too low [really]", Said(Tag.REJECT, "too low [really]")),
        ("[propose]\nAva: BLEU", Said(Tag.PROPOSE, "Ava: BLEU")),
    ],
)
def test_tags_are_read(text: str, said: Said) -> None:
    assert read_said(text) == said
    assert read_said(str(said)) == said


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Hello", r"begin your turn with one of \[message\], \[propose\]"),
        ("", "begin your turn"),
        ("[message] so [propose] Ava: BLEU", r"you wrote \[message\] and \[propose\]"),
    ],
)
def test_a_turn_without_one_tag_is_refused(text: str, fault: str) -> None:
    with pytest.raises(IllegalMove, match=fault):
        read_said(text)
