"""Text from the table of bytes is the tokenizer's own text, and only where that can be known."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from retrain.rendering.decoding import _ByteTable, make_decode

MakeTokenizer = Callable[[str], Any]
SPLIT = "naïve 日本語 🙂 \ufffd\u00a0x\n\t"


def own_text(tokenizer: Any, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.fixture(params=["qwen", "llama"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    names = {"qwen": "qwen2_5", "llama": "llama3_1"}
    return request.getfixturevalue(request.param)(names[request.param])


def test_random_tokens_give_the_tokenizers_text(tokenizer: Any) -> None:
    decode, draw = make_decode(tokenizer), random.Random(0)
    for _ in range(200):
        ids = draw.choices(range(len(tokenizer)), k=draw.randint(0, 12))
        assert decode(ids) == own_text(tokenizer, ids)


def test_characters_cut_in_two_give_the_tokenizers_text(tokenizer: Any) -> None:
    decode, ids = make_decode(tokenizer), tokenizer.encode(SPLIT, add_special_tokens=False)
    assert decode(ids) == SPLIT
    for begin in range(len(ids)):
        for end in range(begin, len(ids) + 1):
            assert decode(ids[begin:end]) == own_text(tokenizer, ids[begin:end])


def test_special_and_unknown_tokens_give_the_tokenizers_text(tokenizer: Any) -> None:
    tokenizer.add_tokens(["<a b>", "<é>", "<日>"])
    decode = make_decode(tokenizer)
    for index in [*tokenizer.added_tokens_decoder, len(tokenizer) + 500]:
        assert decode([index, 64]) == own_text(tokenizer, [index, 64])


def test_a_plain_text_is_read_from_the_table(tokenizer: Any) -> None:
    table, ids = _ByteTable(tokenizer), tokenizer.encode("So far, naïve.", add_special_tokens=False)
    assert b"".join(map(table.__getitem__, ids)) == "So far, naïve.".encode()
    assert table.keys() == {*ids}


def test_a_decoder_of_the_tokenizers_own_is_used(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")
    tokenizer.decode = lambda ids, **options: f"{len(ids)} tokens"
    assert make_decode(tokenizer)([1, 2]) == "2 tokens"


def test_a_class_with_a_decoder_of_its_own_is_used(qwen: MakeTokenizer) -> None:
    tokenizer = qwen("qwen2_5")

    class Louder(type(tokenizer)):  # type: ignore[misc]
        def _decode(self, token_ids: Any, *args: Any, **options: Any) -> str:
            return super()._decode(token_ids, *args, **options).upper()

    tokenizer.__class__ = Louder
    assert make_decode(tokenizer)(tokenizer.encode("so far")) == "SO FAR"
