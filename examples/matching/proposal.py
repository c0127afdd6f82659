"""Reads proposals: lenient in how they are written, exact in what they say.

A proposal pairs each reviewer with a paper, in any order and with anything in between:
"- BLEU: Ava Li", "ava -> bleu", "Ava Li reviews BLEU". Names may be cut to any word that occurs in
no other name. Pairs stand on lines of their own, or follow each other.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .assignment import Assignment
from .messages import IllegalMove
from .names import Mention, Names

_LINE_ENDS = re.compile(r"<br\s*/?>|[\n;]|&[a-z]+;")
_NAMED_PAIR = re.compile(r"\w[^:=]*(?::|=|->|→)\s*\w")


@dataclass(frozen=True, slots=True)
class Pair:
    """One reviewer and the paper, by index."""

    reviewer: int
    paper: int


def parse_proposal(text: str, names: Names) -> Assignment:
    """Read a whole proposal.

    Args:
        text: What follows `[propose]`; HTML, as in DialOp's records, is read too.
        names: Who is assigned to what.

    Returns:
        The paper of each reviewer.

    Raises:
        IllegalMove: Something cannot be read, is named twice or is missing; all of it is named.
    """
    pairs = parse_pairs(text, names)
    faults = [
        *_faults("reviewer", [pair.reviewer for pair in pairs], names.reviewer, names.size),
        *_faults("paper", [pair.paper for pair in pairs], names.paper, names.size),
    ]
    if faults:
        raise IllegalMove("; ".join(faults))
    paper_of = {pair.reviewer: pair.paper for pair in pairs}
    return tuple(paper_of[reviewer] for reviewer in range(names.size))


def parse_pairs(text: str, names: Names) -> list[Pair]:
    """Read the pairs that a text names, in order; a pair that is repeated counts once.

    Args:
        text: A proposal, whole or not.
        names: Who is assigned to what.

    Raises:
        IllegalMove: A line names a reviewer without a paper or the other way round, or neither.
    """
    pairs: list[Pair] = []
    for line in _LINE_ENDS.split(html.unescape(_LINE_ENDS.sub("\n", text))):
        pairs += _pairs_of(line, names)
    return list(dict.fromkeys(pairs))


def _pairs_of(line: str, names: Names) -> list[Pair]:
    mentions = list(names.mentions(line))
    shown = " ".join(line.split()).strip("-*• ")
    if not mentions:
        if _NAMED_PAIR.search(line):
            raise IllegalMove(f"{shown!r} names nobody on this board ({names.listed})")
        return []
    pairs = [mentions[at : at + 2] for at in range(0, len(mentions), 2)]
    if all(len(pair) == 2 and pair[0].kind != pair[1].kind for pair in pairs):
        return [_pair(pair) for pair in pairs]
    kinds = {mention.kind for mention in mentions}
    if len(kinds) == 1:
        other = "paper" if kinds == {"reviewer"} else "reviewer"
        raise IllegalMove(f"{shown!r} names no {other} of this board ({names.listed})")
    raise IllegalMove(f"{shown!r} cannot be read as pairs of a paper and a reviewer")


def _pair(mentions: Sequence[Mention]) -> Pair:
    index = {mention.kind: mention.index for mention in mentions}
    return Pair(index["reviewer"], index["paper"])


def _faults(
    kind: str, found: Sequence[int], name: Callable[[int], str], size: int
) -> Iterator[str]:
    twice = [name(index) for index in dict.fromkeys(found) if found.count(index) > 1]
    if twice:
        yield f"{kind} named twice: {', '.join(twice)}"
    missing = [name(index) for index in range(size) if index not in found]
    if missing:
        yield f"{kind} missing: {', '.join(missing)}"
