"""Whether a rendered conversation continues a token stream, and with what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

_UNREADABLE = "\ufffd"
"""What stands in decoded text for bytes that are no UTF-8: such text says nothing about its ids."""


def continuation(
    stream: Sequence[int],
    whole: Sequence[int],
    controls: Collection[int],
    decode: Callable[[Sequence[int]], str],
) -> list[int] | None:
    """What a whole conversation adds to a stream that was sampled.

    A model may write a text in other tokens than the tokenizer would. So the two are compared piece
    by piece: control tokens by their ids, what stands between them by its text. The stream's own
    ids stay, and what follows begins at a control token, with which nothing merges.

    Args:
        stream: The stream so far.
        whole: The ids of the whole conversation, next generation prompt included.
        controls: The ids of control tokens.
        decode: Gives the text of ids, special tokens included.

    Returns:
        The ids that follow the stream; None where the conversation is not what stands in it.
    """
    length = len(stream)
    if list(whole[:length]) == list(stream):
        return list(whole[length:])
    ours, theirs = _pieces(stream, controls), _pieces(whole, controls)
    last = len(ours) - 1
    if last >= len(theirs):
        return None
    pairs = zip(ours[:last], theirs, strict=False)
    if not all(_same(one, other, decode) for one, other in pairs):
        return None
    if len(ours[last]) == 1 and last and theirs[last][0] == ours[last][0]:
        return _joined([theirs[last][1:], *theirs[last + 1 :]])
    return _joined(theirs[last + 1 :]) if _same(ours[last], theirs[last], decode) else None


def _pieces(ids: Sequence[int], controls: Collection[int]) -> list[list[int]]:
    """Cut before each control token; the first piece has none in front."""
    pieces: list[list[int]] = [[]]
    for index in ids:
        if index in controls:
            pieces.append([])
        pieces[-1].append(index)
    return pieces


def _same(one: list[int], other: list[int], decode: Callable[[Sequence[int]], str]) -> bool:
    """Whether two pieces begin with the same control token and hold the same text."""
    if one == other:
        return True
    if not one or not other:
        return False
    text = decode(one)
    return _UNREADABLE not in text and text == decode(other)


def _joined(pieces: Sequence[Sequence[int]]) -> list[int]:
    return [index for piece in pieces for index in piece]
