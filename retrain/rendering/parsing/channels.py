"""A turn of several messages, each behind a header that says whom it is for.

`HEADER<|message|>BODY`, ended by one of some tokens; `<|start|>assistant` opens each but the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BODY = "<|message|>"
_ENDS = re.compile(r"<\|(?:end|eom|eot|call|return|endoftext)\|>")
_START = re.compile(r"\s*<\|start\|>assistant")
_HEADER = re.compile(r"\s*(?:to=|<\|channel\|>)")
_RECIPIENT = re.compile(r"(?:^|[\s>])to=([^\s<]+)")


@dataclass(frozen=True, slots=True)
class Part:
    """One message of a turn.

    Attributes:
        header: What stands before `<|message|>`.
        body: What stands behind it.
        whole: False where the turn breaks off in the header.
    """

    header: str
    body: str
    whole: bool = True

    @property
    def recipient(self) -> str:
        """Whom it is for; "" where the header does not say, or text without one reads like it."""
        if not self.whole and not _HEADER.match(self.header):
            return ""
        found = _RECIPIENT.search(self.header)
        return found[1] if found else ""


def split_channels(text: str) -> Iterator[Part]:
    """The messages of a turn, in order; text without any header is one with an empty header."""
    position = 0
    while position < len(text):
        opened = _START.match(text, position)
        position = opened.end() if opened else position
        header, found, rest = text[position:].partition(_BODY)
        if not found:
            if header.strip():
                yield Part(header, "", whole=False)
            return
        ended = _ENDS.search(rest)
        body = rest if ended is None else rest[: ended.start()]
        yield Part(header, body)
        position += len(header) + len(_BODY) + (len(rest) if ended is None else ended.end())


def joined(texts: Iterable[str]) -> str:
    """Several messages as one text."""
    return "\n".join(text.strip() for text in texts if text.strip())
