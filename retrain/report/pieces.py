"""Which characters of a text each of its tokens wrote.

Decoding token by token does not give the text: a character may take several tokens, and some
tokenizers drop the space at the start of what they decode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]

_LONGEST_RUN = 8
"""Tokens that may share characters; UTF-8 needs at most four, joined emoji some more."""
_NO_CHARACTER = "\ufffd"


class Pieces:
    """Gives the lengths of the pieces of decoded texts; each id is decoded once."""

    def __init__(self, decode: Decode) -> None:
        """Take the decoder.

        Args:
            decode: Gives the text of ids, special tokens included.
        """
        self._decode = decode
        self._texts = _Texts(decode)

    def lengths(self, ids: Sequence[int], text: str) -> list[int]:
        """Split a text among the tokens that it was decoded from.

        Tokens that write a character together give it to the first of them. Where the pieces
        cannot be told apart, the first token of the doubtful stretch gets all of it.

        Args:
            ids: [T] the tokens.
            text: What they decode to.

        Returns:
            [T] characters (code points) of each token; they add up to the text's.
        """
        alone = [self._texts[id] for id in ids]
        if "".join(alone) == text:
            return [len(piece) for piece in alone]
        lengths: list[int] = []
        at = 0
        while len(lengths) < len(ids):
            taken, length = self._next(ids, len(lengths), text, at)
            lengths += [length] + [0] * (taken - 1)
            at += length
        if lengths:
            lengths[-1] += len(text) - at
        return lengths

    def _next(self, ids: Sequence[int], first: int, text: str, at: int) -> tuple[int, int]:
        """The shortest run of tokens from `first` that the text goes on with: (tokens, length)."""
        doubtful = None
        for taken in range(1, min(_LONGEST_RUN, len(ids) - first) + 1):
            piece = self._text(ids[first : first + taken])
            length = _matching(piece, text, at)
            if length is None:
                continue
            if _NO_CHARACTER not in piece:
                return taken, length
            doubtful = doubtful or (taken, length)
        return doubtful or (len(ids) - first, len(text) - at)

    def _text(self, ids: Sequence[int]) -> str:
        return self._texts[ids[0]] if len(ids) == 1 else self._decode(ids)


class _Texts(dict[int, str]):
    """The text of each token by itself, decoded when it first occurs."""

    def __init__(self, decode: Decode) -> None:
        super().__init__()
        self._decode = decode

    def __missing__(self, id: int) -> str:
        text = self[id] = self._decode((id,))
        return text


def _matching(piece: str, text: str, at: int) -> int | None:
    """How many characters a piece takes of the text at a place; None where it is not there."""
    if text.startswith(piece, at):
        return len(piece)
    if text.startswith(" " + piece, at):
        return len(piece) + 1
    return None
