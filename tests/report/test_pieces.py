from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.report.pieces import Pieces


def of_bytes(ids: Sequence[int]) -> str:
    return bytes(ids).decode(errors="replace")


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("ab", [1, 1]),
        ("aé", [1, 1, 0]),
        ("👍🏽!", [1, 0, 0, 0, 1, 0, 0, 0, 1]),
        ("", []),
    ],
)
def test_tokens_that_write_a_character_together_give_it_to_the_first(
    text: str, lengths: list[int]
) -> None:
    assert Pieces(of_bytes).lengths(tuple(text.encode()), text) == lengths


@given(st.binary(max_size=60))
def test_the_pieces_add_up_to_the_text_whatever_the_bytes(ids: bytes) -> None:
    text = of_bytes(ids)
    lengths = Pieces(of_bytes).lengths(tuple(ids), text)
    assert len(lengths) == len(ids)
    assert sum(lengths) == len(text)
    assert min(lengths, default=0) >= 0


def test_a_space_that_a_token_alone_does_not_show_is_its_own() -> None:
    words = ["▁Hello", "▁world", "!"]

    def decode(ids: Sequence[int]) -> str:
        return "".join(words[i] for i in ids).replace("▁", " ").removeprefix(" ")

    assert Pieces(decode).lengths((0, 1, 2), "Hello world!") == [5, 6, 1]


def test_each_id_is_decoded_once() -> None:
    asked: list[tuple[int, ...]] = []

    def decode(ids: Sequence[int]) -> str:
        asked.append(tuple(ids))
        return of_bytes(ids)

    pieces = Pieces(decode)
    for _ in range(3):
        pieces.lengths(tuple(b"abcabc"), "abcabc")
    assert sorted(asked) == [(97,), (98,), (99,)]


def test_where_the_pieces_cannot_be_told_apart_nothing_is_lost() -> None:
    assert Pieces(lambda ids: "?").lengths((1, 2, 3), "abc") == [3, 0, 0]
