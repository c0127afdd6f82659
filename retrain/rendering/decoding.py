"""Ids to text without a detour: byte-level vocabularies are joined from a table of their bytes.

Decoding a turn and a response is most of what a token costs outside the engine. A byte-level
vocabulary gives every token fixed bytes, and the text is those bytes read as UTF-8, so a table that
fills itself does what the tokenizer does. Where that is not so (other decoders, a subclass with a
decoder of its own, bytes that are no UTF-8, ids that are no tokens) the tokenizer itself decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrain.rendering.template import ChatTokenizer

Decode = Callable[[Sequence[int]], str]
"""The text of ids, special tokens included."""

_TOKENIZERS = "transformers.tokenization_utils"
"""How the modules of transformers begin in which `decode` is the generic one."""


def make_decode(tokenizer: ChatTokenizer) -> Decode:
    """The fastest exact decoder of a tokenizer, special tokens included.

    Args:
        tokenizer: A fast tokenizer of transformers, or anything alike.
    """

    def decode(ids: Sequence[int]) -> str:
        return tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )

    if not is_byte_level(tokenizer):
        return decode
    table = _ByteTable(tokenizer)

    def decode_bytes(ids: Sequence[int]) -> str:
        try:
            return b"".join(map(table.__getitem__, ids)).decode()
        except (LookupError, UnicodeDecodeError):
            return decode(ids)

    return decode_bytes


class _ByteTable(dict[int, bytes]):
    """The bytes of each token, found when it first occurs.

    As the decoder of tokenizers does it: every character of a token stands for a byte, and a token
    with another character (an added one) stands for itself.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self._backend = tokenizer.backend_tokenizer

    def __missing__(self, index: int) -> bytes:
        token = self._backend.id_to_token(index) if type(index) is int and index >= 0 else None
        if token is None:
            raise LookupError(index)
        try:
            found = bytes(map(_BYTE.__getitem__, token))
        except KeyError:
            found = token.encode()
        self[index] = found
        return found


def is_byte_level(tokenizer: Any) -> bool:
    """Whether every token has fixed bytes, and a text is those bytes read as UTF-8.

    Then what some tokens say does not hang on those behind them, but for a last character that
    they complete.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = getattr(backend, "decoder", None)
    own = vars(tokenizer) if hasattr(tokenizer, "__dict__") else {}
    generic = all(
        name not in own
        and getattr(getattr(type(tokenizer), name, None), "__module__", "").startswith(_TOKENIZERS)
        for name in ("decode", "_decode")
    )
    return generic and type(decoder).__name__ == "ByteLevel"


def _byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte: itself where it is printable, else one above 255.

    Source: `bytes_to_unicode` of GPT-2's encoder.py.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + position): byte for position, byte in enumerate(others)}


_BYTE = _byte_alphabet()
