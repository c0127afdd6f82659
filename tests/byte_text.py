"""Texts as their bytes: the smallest tokenizer."""

from __future__ import annotations

from collections.abc import Sequence


def encode(text: str) -> tuple[int, ...]:
    """The bytes of a text."""
    return tuple(text.encode())


def decode(ids: Sequence[int]) -> str:
    """The text of bytes, whole characters or not."""
    return bytes(ids).decode(errors="replace")


class ByteRenderer:
    """The part of a renderer that the conversion uses."""

    pad_token_id = 0

    def decode(self, ids: Sequence[int]) -> str:
        return decode(ids)
