"""`StopStrings`: texts behind which an engine may end a turn by itself.

It spares what would be cut off. Whoever asks cuts by itself all the same, at the first token behind
which the decoded turn holds one of the texts, so an engine may end later, or never, but not sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StopStrings:
    """Texts that end a turn.

    Attributes:
        texts: The texts, none of them empty.
        decode: Tokens to text, special tokens included.
    """

    texts: tuple[str, ...]
    decode: Callable[[Sequence[int]], str] = field(compare=False, repr=False)

    def in_text_of(self, ids: Sequence[int]) -> bool:
        """Whether one of them stands in the text of some tokens."""
        text = self.decode(ids)
        return any(one in text for one in self.texts)

    def completed_by(self, ids: Sequence[int]) -> bool:
        """Whether a turn that held none of them until its last token holds one now.

        Only as many tokens at the end are decoded as the longest text has bytes, unless they hold
        one: a token stands for a byte at least.
        """
        window = max(len(one.encode()) for one in self.texts)
        return self.in_text_of(ids[-window:]) and self.in_text_of(ids)
