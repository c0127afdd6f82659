"""What players say: one tag a turn, `[message]`, `[propose]`, `[accept]` or `[reject]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_BRACKETED = re.compile(r"\[\s*([A-Za-z]+)\s*\]")


class Tag(StrEnum):
    """What a turn does."""

    MESSAGE = "message"
    PROPOSE = "propose"
    ACCEPT = "accept"
    REJECT = "reject"


class IllegalMove(ValueError):
    """A turn that the rules do not allow; its text is what the player is told."""


@dataclass(frozen=True, slots=True)
class Said:
    """One turn as the other player hears it.

    Attributes:
        tag: What it does.
        text: What follows the tag.
    """

    tag: Tag
    text: str = ""

    def __str__(self) -> str:
        return f"[{self.tag}] {self.text}".rstrip()


_TAGS = ", ".join(f"[{tag}]" for tag in Tag)


def read_said(text: str) -> Said:
    """Read a turn; case and spaces in the tag do not matter.

    What stands before the tag is the player's own thought, and nobody hears it.

    Raises:
        IllegalMove: There is no tag, or two different ones.
    """
    found = [match for match in _BRACKETED.finditer(text) if match[1].lower() in set(Tag)]
    if not found:
        raise IllegalMove(f"begin your turn with one of {_TAGS}")
    kinds = list(dict.fromkeys(match[1].lower() for match in found))
    if len(kinds) > 1:
        written = " and ".join(f"[{kind}]" for kind in kinds)
        raise IllegalMove(f"one tag a turn; you wrote {written}")
    return Said(Tag(kinds[0]), text[found[0].end() :].strip())
